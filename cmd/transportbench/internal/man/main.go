package main

import (
	"log"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"transportbench/cmd/transportbench/internal/cli"
	"transportbench/core"
	"transportbench/core/base/files"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: man DIRECTORY")
	}
	if err := write(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// write writes the pages into dir. They have the date of SOURCE_DATE_EPOCH, or of today.
func write(dir string) error {
	if err := files.MakeDir(dir); err != nil {
		return err
	}
	root := cli.Command()
	root.DisableAutoGenTag = true
	escape(root)
	header := &doc.GenManHeader{Section: "1", Source: "transportbench " + core.Version,
		Manual: "transportbench"}
	return doc.GenManTree(root, header, dir)
}

// markup has the characters that the generator, which reads texts as Markdown, would not print.
var markup = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "<", `\<`, ">", `\>`,
	"[", `\[`)

// completion is the name of the command whose help cobra writes, in Markdown.
const completion = "completion"

// escape escapes the help of cmd, of its flags and of the commands below it.
func escape(cmd *cobra.Command) {
	cmd.Long = markup.Replace(cmd.Long)
	for _, flags := range []*pflag.FlagSet{cmd.LocalNonPersistentFlags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) { f.Usage = markup.Replace(f.Usage) })
	}
	for _, sub := range cmd.Commands() {
		if sub.Name() != completion {
			escape(sub)
		}
	}
}
