package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/files"
	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/doc/export"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/store/set"
)

// ExportFormats are the names of the formats of export.
var ExportFormats = []string{"csv", "benchfmt", "hdr", "json", "table"}

// exporters write a set in each format.
var exporters = map[string]func(io.Writer, *set.Set) error{
	"csv": export.CSV, "benchfmt": export.Benchfmt, "hdr": export.HDRLog,
	"json": func(w io.Writer, s *set.Set) error { return s.EncodeWhole(w) },
	"table": func(w io.Writer, s *set.Set) error {
		terminal.PrintWhole(w, tables.Tables(s))
		return nil
	},
}

func exportCommand(a *app.App) *cobra.Command {
	var format, output string
	cmd := &cobra.Command{
		Use: "export SET", ValidArgsFunction: complete.Results,
		Short: "Convert results to other tools' formats",
		Long: `export reads a set of results (a directory, its index, a file) and writes it as

  csv       one line per repeat, one column per metric
  benchfmt  the Go benchmark format, for benchstat
  hdr       an HDR V2 log of the service times, one interval per repeat; with
            --output DIR/ also a percentile table (.hgrm) per cell
  json      the set as a single file with all results
  table     the tables that sweep prints

` + app.ExitHelp,
		Example: `  transportbench export --format benchfmt old/ > old.txt
  transportbench export --format hdr results/local --output histograms/`,
		Args: app.Takes(1, 1, "one set of results"),
		RunE: a.WithSettings(func(cmd *cobra.Command, _ *options.Settings, args []string) error {
			if !slices.Contains(ExportFormats, format) {
				return app.Usagef("--format: %q is not one of %s%s", format,
					strings.Join(ExportFormats, ", "),
					suggest.For(format, ExportFormats))
			}
			s, err := readSet(a, args[0])
			if err != nil {
				return err
			}
			return exportSet(cmd.Context(), a, s, format, output)
		}),
	}
	cmd.Flags().StringVar(&format, "format", "csv", strings.Join(ExportFormats, ", "))
	cmd.Flags().StringVarP(&output, "output", "o", "",
		"file to write, or for hdr a directory; default: standard output")
	_ = cmd.RegisterFlagCompletionFunc("format",
		cobra.FixedCompletions(ExportFormats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func exportSet(ctx context.Context, a *app.App, s *set.Set, format, output string) error {
	write := func(w io.Writer) error { return exportTo(w, exporters[format], s) }
	switch info, err := os.Stat(output); {
	case output == "":
		if format != "table" {
			terminal.Verbatim(a.Stdout)
		}
		return write(a.Stdout)
	case format == "hdr" && (strings.HasSuffix(output, "/") || err == nil && info.IsDir()):
		return exportHistograms(ctx, s, output)
	}
	return app.BadOutput("--output", files.Write(ctx, output, write))
}

// exportTo exports a set to w. An error that is not one of w is one of the set's files.
func exportTo(w io.Writer, export func(io.Writer, *set.Set) error, s *set.Set) error {
	out := &app.CheckedWriter{Writer: w}
	err := export(out, s)
	if err != nil && out.Err == nil {
		return app.BadInput(err)
	}
	return err
}

// exportHistograms writes a log, and a percentile table per cell.
func exportHistograms(ctx context.Context, s *set.Set, dir string) error {
	if err := files.MakeDir(dir); err != nil {
		return app.BadOutput("--output", err)
	}
	log := func(w io.Writer) error { return exportTo(w, export.HDRLog, s) }
	if err := files.Write(ctx, filepath.Join(dir, "service-time.hlog"), log); err != nil {
		return app.BadOutput("--output", err)
	}
	labels, written, without := set.LabelsOf(s.Cells), 0, error(nil)
	for i := range s.Cells {
		if s.Cells[i].Status != set.Measured {
			continue
		}
		name := fmt.Sprintf("%04d-%s.hgrm", i, fileName(labels.Of(s.Cells[i].Config)))
		err := files.Write(ctx, filepath.Join(dir, name),
			func(w io.Writer) error { return export.Percentiles(w, s, i) })
		switch {
		case errors.Is(err, export.ErrNoHistograms):
			without = err
		case err != nil:
			return app.BadOutput("--output", err) // the log has read the histograms of all cells
		default:
			written++
		}
	}
	if written == 0 && without != nil {
		return app.Exitf(app.ExitTooLittle, "%v", without)
	}
	return nil
}

// fileName turns a label into a file name without separators.
func fileName(label string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("=._-", r) {
			return r
		}
		return '_'
	}, label)
	const limit = 150
	return name[:min(len(name), limit)]
}
