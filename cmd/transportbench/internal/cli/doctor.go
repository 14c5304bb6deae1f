package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/judge/doctor"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Report what on this machine affects results", Args: noArgs,
		Long: `doctor looks at cores, clocks, memory, kernel settings, RDMA devices and native
libraries. It explains what each means for results and how to fix it, and changes
nothing. It opens each installed transport once, which says what auto takes here
and why. It exits with 1 if something cannot be used at all.

With --hosts and the like it also compares the other hosts, and warns where they
differ.`,
		Example: `  transportbench doctor
  transportbench doctor --hosts a,b`,
		RunE: a.withSettings(func(cmd *cobra.Command, s *options.Settings, _ []string) error {
			differences, err := a.compareHosts(cmd.Context(), s)
			if err != nil {
				return err
			}
			tried, err := a.tried(cmd.Context(), s)
			if err != nil {
				return err
			}
			found := slices.Concat(doctor.Examine(cmd.Context()), tried)
			if differences != nil {
				here, err := os.Hostname()
				if err != nil {
					return err
				}
				for i := range found {
					found[i].Host = here
				}
				found = append(found, differences...)
			}
			if !s.JSON {
				terminal.Print(a.stdout, findings.Doctor(found))
			} else if err := writeJSON(a.stdout, found); err != nil {
				return err
			}
			for _, f := range found {
				if f.Status == doctor.Bad {
					return fmt.Errorf("%s: %s: %s", f.Name, f.Value, f.Meaning)
				}
			}
			return nil
		}),
	}
	options.AddJSON(cmd.Flags())
	options.AddHosts(cmd.Flags())
	return cmd
}

// compareHosts compares the other hosts that the settings name, if any.
func (a *app) compareHosts(ctx context.Context, settings *options.Settings) ([]doctor.Finding,
	error) {
	s := &session{app: a, settings: settings}
	if err := s.join(ctx); err != nil || s.cluster == nil {
		return nil, err
	}
	defer s.leave()
	var hosts []doctor.Host
	for i, name := range s.cluster.Names() {
		hello := s.cluster.Hellos()[i]
		hosts = append(hosts, doctor.Host{Name: name, Environment: hello.Environment,
			Interfaces: hello.Interfaces,
			Libraries:  hello.Libraries, Plugins: map[string]doctor.Plugin{}})
	}
	entries, err := a.catalog(ctx, settings.PluginDir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		sum, err := e.SHA256()
		if err != nil {
			return nil, err
		}
		descriptions, errs := s.cluster.Descriptions(ctx, e.Name, sum)
		for i, d := range descriptions {
			refused := errs[i]
			if unnamed := errors.Unwrap(refused); unnamed != nil {
				refused = unnamed // without the host, so that equal reasons are one
			}
			hosts[i].Plugins[e.Name] = doctor.Plugin{Refused: refused,
				Unavailable: d.Info.Unavailable}
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return doctor.Compare(hosts)
}

// version is the JSON output of the version command.
type version struct {
	Version       string `json:"version"`
	Revision      string `json:"revision"`
	Go            string `json:"go"`
	Platform      string `json:"platform"`
	RuntimeDigest string `json:"runtime_digest"`
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version and the digest of the runtime", Args: noArgs,
		Long: `version prints what the command was built from. The command rejects plugins with
another runtime digest, because they measure differently, unless
--allow-mixed-runtime is set.`,
		RunE: a.withSettings(func(_ *cobra.Command, s *options.Settings, _ []string) error {
			v := version{core.Version, core.BuildRevision(), runtime.Version(),
				runtime.GOOS + "/" + runtime.GOARCH, core.RuntimeDigest()}
			if s.JSON {
				return writeJSON(a.stdout, v)
			}
			_, err := fmt.Fprintf(a.stdout,
				"transportbench %s\nrevision  %s\ngo        %s %s\nruntime   %s\n",
				v.Version, v.Revision, v.Go, v.Platform, v.RuntimeDigest)
			return err
		}),
	}
	options.AddJSON(cmd.Flags())
	return cmd
}
