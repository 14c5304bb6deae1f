package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/base/model"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/experiment/trace"
)

func replayCheckCommand(a *app.App) *cobra.Command {
	var (
		o     trace.Options
		name  string
		bytes = new(config.Size)
		json  bool
	)
	names, about := trace.Formats()
	var formats strings.Builder
	for i := range names {
		fmt.Fprintf(&formats, "  %-9s %s\n", names[i], about[i])
	}
	cmd := &cobra.Command{
		Use: "check FILE", Short: "Say what is in a trace",
		Long: `check reads a trace of requests and says what is in it: requests, rate over time,
sizes, working set, reuse distance, share of reads and burstiness. FILE may be
compressed with gzip or zstd; - is standard input. The formats are

` + formats.String() + `
` + app.ExitHelp,
		Example: `  transportbench replay check requests.csv.gz
  transportbench replay check --model llama-3.1-8b conversation_trace.jsonl`,
		Args: app.Takes(1, 1, "one trace"),
		RunE: func(_ *cobra.Command, args []string) error {
			if o.From < 0 || o.For < 0 {
				return app.Usagef("--from and --for: a negative time")
			}
			o.BytesPerToken = int64(*bytes)
			if name != "" {
				var of model.Name
				if err := of.Read(name, files.ReadArgument); err != nil {
					return app.Usagef("--model: %v", err)
				}
				o.BytesPerToken = int64(of.Shape().BytesPerToken())
			}
			file, err := files.Temporary(os.TempDir())
			if err != nil {
				return err
			}
			defer file.Close()
			part, err := trace.PrepareFile(args[0], a.Stdin, o, file)
			if err != nil {
				return app.BadInput(err)
			}
			if json {
				terminal.Verbatim(a.Stdout)
				return app.WriteJSON(a.Stdout, part)
			}
			terminal.Print(a.Stdout, findings.Trace(part))
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Format, "replay-format", "", strings.Join(names, ", ")+
		"; default: found by the first line")
	flags.DurationVar(&o.From, "from", 0, "begin of the part, since the first request")
	flags.DurationVar(&o.For, "for", time.Duration(0), "length of the part; 0 is up to the end")
	flags.StringVar(&name, "model", "", "the model that the trace is of: "+
		strings.Join(model.Names(), ", ")+", or the path of its config.json")
	flags.Var(sizeFlag{bytes}, "bytes-per-token", "size of a token, instead of --model")
	flags.BoolVar(&json, "json", false, "write JSON")
	_ = cmd.RegisterFlagCompletionFunc("replay-format",
		cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("model",
		cobra.FixedCompletions(model.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// sizeFlag is a flag with a size.
type sizeFlag struct{ *config.Size }

// Type implements pflag.Value.
func (sizeFlag) Type() string { return "size" }
