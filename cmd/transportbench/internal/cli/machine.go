package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/present"
	"transportbench/core"
	"transportbench/core/lab/doctor"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Examine this machine for what shapes results", Args: noArgs,
		Long: `doctor looks at cores, clocks, memory, kernel settings, RDMA devices and native
libraries, and says what each means for results and how to mend it. It changes
nothing. It exits with 1 where something cannot be used at all.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.settings(cmd, nil, nil)
			if err != nil {
				return err
			}
			findings := doctor.Examine(cmd.Context())
			if s.JSON {
				err = writeJSON(a.stdout, findings)
			} else {
				present.Findings(a.stdout, findings)
			}
			if err != nil {
				return err
			}
			return unusable(findings)
		},
	}
	options.AddJSON(cmd.Flags())
	return cmd
}

// unusable returns an error where something on the machine will not run.
func unusable(findings []doctor.Finding) error {
	for _, f := range findings {
		if f.Status == doctor.Bad {
			return fmt.Errorf("%s: %s: %s", f.Name, f.Value, f.Meaning)
		}
	}
	return nil
}

// version is what the command was built from.
type version struct {
	Version       string `json:"version"`
	Revision      string `json:"revision"`
	Go            string `json:"go"`
	Platform      string `json:"platform"`
	RuntimeDigest string `json:"runtime_digest"`
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version, and the digest of the runtime", Args: noArgs,
		Long: `version prints what the command was built from. Plugins whose runtime has another
digest measure another way, and are not run beside each other unless
--allow-mixed-runtime is set.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.settings(cmd, nil, nil)
			if err != nil {
				return err
			}
			v := version{core.Version, core.BuildRevision(), runtime.Version(),
				runtime.GOOS + "/" + runtime.GOARCH, core.RuntimeDigest()}
			if s.JSON {
				return writeJSON(a.stdout, v)
			}
			_, err = fmt.Fprintf(a.stdout, "transportbench %s\nrevision  %s\ngo        %s %s\nruntime   %s\n",
				v.Version, v.Revision, v.Go, v.Platform, v.RuntimeDigest)
			return err
		},
	}
	options.AddJSON(cmd.Flags())
	return cmd
}
