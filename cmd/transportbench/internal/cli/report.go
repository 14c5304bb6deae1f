package cli

import (
	"io"

	"github.com/spf13/cobra"

	"transportbench/core/lab/analyze"
	"transportbench/core/lab/compare"
	"transportbench/core/lab/report"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
)

// reportFlags are the flags that report and serve share.
type reportFlags struct {
	slo            string
	across, ignore []string
}

func (f *reportFlags) options() (report.Options, error) {
	o := report.Options{Compare: compare.Defaults()}
	o.Compare.Across, o.Compare.Ignore = f.across, underscored(f.ignore)
	if f.slo != "" {
		objective, err := analyze.ParseObjective(f.slo)
		if err != nil {
			return o, usagef("--slo: %v", err)
		}
		o.Objective = &objective
	}
	return o, nil
}

func (a *app) reportCommand() *cobra.Command {
	f, output := new(reportFlags), ""
	cmd := &cobra.Command{
		Use: "report SET...", Short: "Draw sets of results as one HTML file",
		Long: `report makes one self-contained HTML file of a set of results, or of several: then
each later set is compared with the first. It opens from disk without a network.

` + exitHelp,
		Example: `  transportbench report results/local -o report.html
  transportbench report old/ new/ -o changes.html
  transportbench report results/local --slo 'p99<50us' -o report.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s takes one set of results or more; see %s --help", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := a.settings(cmd, nil, nil); err != nil {
				return err
			}
			o, err := f.options()
			if err != nil {
				return err
			}
			var sets []*set.Set
			for _, path := range args {
				s, err := set.Load(path)
				if err != nil {
					return badInput(err)
				}
				sets = append(sets, s)
			}
			page, err := report.Build(cmd.Context(), sets, o)
			if err != nil {
				return err
			}
			if output == "-" {
				return page.Render(a.stdout)
			}
			if err := result.Replace(output, func(w io.Writer) error { return page.Render(w) }); err != nil {
				return usagef("--output: %v", err)
			}
			a.note("%s: %s", output, page.Title())
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "report.html", "file to write; - is standard output")
	f.add(cmd)
	cmd.Flags().StringSliceVar(&f.across, "across", nil, "keys of the environment that may differ between sets, a comma list, or all")
	cmd.Flags().StringSliceVar(&f.ignore, "ignore", nil, "options that do not tell cells apart, such as duration")
	return cmd
}

func (f *reportFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.slo, "slo", "", "the objective of the verdict strip, such as p99<50us")
}
