package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/agents"
	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/catalog"
	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/judge/doctor"
)

func doctorCommand(a *app.App) *cobra.Command {
	network := ""
	cmd := &cobra.Command{
		Use: "doctor", Short: "Report what on this machine affects results", Args: app.NoArgs,
		Long: `doctor looks at cores, clocks, memory, kernel settings, RDMA devices and native
libraries. It explains what each means for results and how to fix it, and changes
nothing. It opens each installed transport once, which says what auto takes here
and why. It exits with 1 if something cannot be used at all.

With --hosts and the like it also compares the other hosts, warns where they
differ, and measures the network from each to each.`,
		Example: `  transportbench doctor
  transportbench doctor --hosts a,b`,
		RunE: a.WithSettings(func(cmd *cobra.Command, s *options.Settings, _ []string) error {
			differences, err := compareHosts(cmd.Context(), a, s, network)
			if err != nil {
				return err
			}
			tried, err := tried(cmd.Context(), s)
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
				a.Print(findings.Doctor(found))
			} else if err := app.WriteJSON(a.Stdout, found); err != nil {
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
	cmd.Flags().StringVar(&network, "path-network", "", "measure between the hosts' addresses in "+
		"this network, such as 10.1.0.0/16 (default: those by which they join)")
	return cmd
}

// compareHosts compares the other hosts that the settings name, if any, and measures the paths
// between them.
func compareHosts(ctx context.Context, a *app.App, settings *options.Settings,
	network string) ([]doctor.Finding, error) {
	if network != "" {
		if _, err := netip.ParsePrefix(network); err != nil {
			return nil, app.Usagef("--path-network: %v", err)
		}
	}
	cluster, err := agents.Join(ctx, a, settings)
	if cluster == nil {
		return nil, err
	}
	defer cluster.Close()
	var hosts []doctor.Host
	for i, name := range cluster.Names() {
		hello := cluster.Hellos()[i]
		hosts = append(hosts, doctor.Host{Name: name, Environment: hello.Environment,
			Interfaces: hello.Interfaces,
			Libraries:  hello.Libraries, Plugins: map[string]doctor.Plugin{}})
	}
	entries, err := catalog.All(ctx, settings.PluginDir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		sum, err := e.SHA256()
		if err != nil {
			return nil, err
		}
		descriptions, errs := cluster.Descriptions(ctx, e.Name, sum)
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
	found, err := doctor.Compare(hosts)
	if err != nil || len(hosts) == 1 {
		return found, err
	}
	replies, errs, err := cluster.Paths(ctx, network)
	if err != nil {
		return nil, err
	}
	paths := &doctor.Paths{Hosts: cluster.Names()}
	for from := range replies {
		for to, r := range replies[from] {
			paths.Add(from, to, float64(r.RoundTrip), r.Rate, errs[from][to])
		}
	}
	return append(found, paths.Judge()...), nil
}

// version is the JSON output of the version command.
type version struct {
	Version       string `json:"version"`
	Revision      string `json:"revision"`
	Go            string `json:"go"`
	Platform      string `json:"platform"`
	RuntimeDigest string `json:"runtime_digest"`
}

func versionCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version and the digest of the runtime", Args: app.NoArgs,
		Long: `version prints what the command was built from. The command rejects plugins with
another runtime digest, because they measure differently, unless
--allow-mixed-runtime is set.`,
		RunE: a.WithSettings(func(_ *cobra.Command, s *options.Settings, _ []string) error {
			v := version{core.Version, core.BuildRevision(), runtime.Version(),
				runtime.GOOS + "/" + runtime.GOARCH, core.RuntimeDigest()}
			if s.JSON {
				return app.WriteJSON(a.Stdout, v)
			}
			_, err := fmt.Fprintf(a.Stdout,
				"transportbench %s\nrevision  %s\ngo        %s %s\nruntime   %s\n",
				v.Version, v.Revision, v.Go, v.Platform, v.RuntimeDigest)
			return err
		}),
	}
	options.AddJSON(cmd.Flags())
	return cmd
}

// tried returns what auto takes, as a finding for each transport that takes something.
func tried(ctx context.Context, s *options.Settings) ([]doctor.Finding, error) {
	entries, err := catalog.All(ctx, s.PluginDir)
	if err != nil {
		return nil, err
	}
	entries = catalog.Candidates(entries)
	trials := make([]*listing.Trial, len(entries))
	room := make(chan struct{}, runtime.NumCPU())
	var trying sync.WaitGroup
	for i, e := range entries {
		trying.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			trials[i] = e.Try(ctx)
		})
	}
	trying.Wait()
	var findings []doctor.Finding
	for i, e := range entries {
		f := doctor.Finding{Name: "auto-" + e.Name, Status: doctor.Note}
		switch t := trials[i]; {
		case t == nil:
			f.Value, f.Meaning = "not available", e.Unavailable()
		case t.Failed != "":
			f.Value, f.Meaning = "does not open", t.Failed
		case t.Reason != "":
			f.Value, f.Meaning = t.Summary(), t.Reason
		default:
			f.Value, f.Meaning, f.Status = t.Summary(),
				"The default options leave nothing to choose that depends on the machine.",
				doctor.OK
		}
		findings = append(findings, f)
	}
	return findings, ctx.Err()
}
