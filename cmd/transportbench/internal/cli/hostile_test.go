package cli_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/cmd/transportbench/internal/comparison"
	"transportbench/cmd/transportbench/internal/inspect"
	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/hosts"
	"transportbench/core/lab/experiment/hosts/engine"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/plugin"
	"transportbench/core/plugin/agent"
	"transportbench/core/transport"
)

// poison sets the title of a terminal's window, clears it, reverses text, hides text, forges a
// line, and has markup of HTML.
const poison = "\x1b]0;owned\a\x1b[2J\u009b31m\u202e\u2066" +
	"\u200f\u200b\ufeff\r\b\x7f\u2028\t\nforged: line\U000e0041</td><script>"

// hostile is the prefix of the names of plugins that say poison wherever they can.
const hostile = "hostile"

// actHostile acts as the plugin of that name. It never returns.
func actHostile(name string) {
	rest := "\xff" + poison // as in a stream of bytes
	fmt.Fprintln(os.Stderr, rest)
	switch name {
	case hostile + "garbage":
		fmt.Println(rest)
		os.Exit(0)
	case hostile + "exit":
		os.Exit(3)
	}
	d := &clitest.Driver{Described: transport.Info{
		Name: name, Version: "1" + poison, Summary: poison, Choose: poison,
		Providers: []string{poison, "b" + poison},
		Options: []transport.Option{
			{Name: "do", Type: transport.TypeString, Help: poison},
			{Name: "ring", Type: transport.TypeString, Default: poison,
				Allowed: []string{poison, "x" + poison}, Help: poison},
		},
		Matched: map[string]string{"do": poison},
	}}
	switch name {
	case hostile + "stub":
		d.Described.Unavailable = poison
	case hostile + "names":
		d.Described.Options[0].Name, d.Described.Matched = poison, map[string]string{poison: poison}
	}
	plugin.Serve(d, func(transport.Driver) record.Control { return new(hostileRank) })
}

// hostileRank fails in the ways that the option "do" names.
type hostileRank struct{ record.Control }

func (*hostileRank) Prepare(_ context.Context, plan record.Plan) (record.Prepared, error) {
	slog.Error(poison, "key"+poison, poison)
	slog.Info(poison, slog.Group(poison, poison, poison))
	fmt.Println("\xff" + poison)
	fmt.Fprintln(os.Stderr, "\xff"+poison)
	if text, is := strings.CutPrefix(plan.Config.Options["do"], longPrefix); is {
		return record.Prepared{}, failAtLength(text)
	}
	prepared := record.Prepared{CPUs: []string{poison},
		Properties: transport.Properties{Provider: poison, Medium: poison}}
	switch plan.Config.Options["do"] {
	case "panic":
		panic(poison)
	case "exit":
		os.Exit(3)
	case "unavailable":
		return prepared, transport.Unavailable("%s", poison)
	case "option":
		return prepared, &config.Error{Option: poison, Problem: poison}
	}
	return prepared, errors.Join(transport.NewOpError(poison, poison, errors.New(poison)),
		&transport.OptionError{Option: poison, Problem: poison})
}

// longPrefix begins the ways to fail at length, as a native library does that reports everything it
// knows.
const longPrefix = "long-"

// longText is what then is said.
var longText = "the device refuses" + strings.Repeat(" because of this\n", 400) +
	"; install the driver"

func failAtLength(how string) error {
	switch how {
	case "unavailable":
		return transport.Unavailable("%s", longText)
	case "option":
		return &transport.OptionError{Option: "do", Problem: longText}
	case "op":
		return transport.NewOpError("hostile", "open", errors.New(longText))
	case "log":
		slog.Error(longText)
	case "die":
		panic(strings.ReplaceAll(longText, "\n", ""))
	}
	return errors.Join(errors.New(longText), errors.New(longText))
}

func (*hostileRank) Close(context.Context) error { return errors.New(poison) }

// requirePrintable fails if text has anything but printable characters, tabs and line feeds, or the
// line that poison forges.
func requirePrintable(t *testing.T, text, of string) {
	t.Helper()
	require.True(t, utf8.ValidString(text), of)
	for i, r := range text {
		if !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
			require.Failf(t, "raw character", "%q of %s in %q", r, of,
				text[max(0, i-200):min(len(text), i+50)])
		}
	}
	require.NotContains(t, text, "\nforged", of)
}

// safely runs a command line, and checks what it writes.
func safely(c *clitest.Command, args ...string) int {
	c.Helper()
	code := c.Execute(args...)
	requirePrintable(c.T, c.Stdout, fmt.Sprintf("%q", args))
	requirePrintable(c.T, c.Stderr, fmt.Sprintf("%q", args))
	return code
}

func TestHostilePlugins(t *testing.T) {
	names := []string{hostile, hostile + "names", hostile + "stub", hostile + "garbage",
		hostile + "exit"}
	c := &clitest.Command{T: t, Plugins: names, Run: runner.Run}
	dir := clitest.PluginDir(t, names...)
	for _, format := range []string{"--json=false", "--json"} {
		require.Zero(t, safely(c, "plugins", "list", format))
		require.Contains(t, c.Stdout, hostile)
		require.Contains(t, c.Stdout, `\u202e`)
		for _, name := range names {
			code := safely(c, "plugins", "show", name, format)
			require.Equal(t, name == hostile || name == hostile+"stub", code == app.ExitOK,
				c.Stderr)
			require.Regexp(t, `\\\\?(x1b|u202e|udb40)`, c.Stdout+c.Stderr, "the text is shown")
		}
	}
	for _, line := range [][]string{
		{"micro", hostile}, {"micro", hostile + "exit"}, {"micro", hostile, poison},
		{"sweep", "--transport", strings.Join(names, ","), "--dry-run"},
		{"sweep", "--transport", hostile, "--set", "do" + poison + "=" + poison, "--dry-run"},
		{"sweep", "--transport", hostile + "," + hostile + "stub", "--repeats", "1", "--out",
			t.TempDir(), "-v"},
		{"__complete", "run", "--transport", ""},
	} {
		safely(c, append(line, "--plugin-dir", dir)...)
		require.NotEmpty(t, c.Stdout+c.Stderr)
	}
	for _, do := range []string{"fail", "panic", "exit", "unavailable", "option"} {
		for _, format := range []string{"-v", "--json"} {
			require.NotZero(t, safely(c, "run", "--transport", hostile, "--set", "do="+do,
				"--repeats", "1", "--duration", "1ms", "--warmup", "0", format))
			require.Contains(t, c.Stderr, `\u202e`, do)
		}
	}
	require.NotZero(t, safely(c, "run", "--transport", "all", "--repeats", "1", "-v"))
	requireFiles(t, c.Out)
}

// TestLongErrors: a long text of a plugin is cut to some lines of a terminal, and the last one
// still names the remedy.
func TestLongErrors(t *testing.T) {
	c := &clitest.Command{T: t, Plugins: []string{hostile}, Run: runner.Run}
	const longest = 2500 // with the command's own words around two texts
	for _, how := range []string{"unavailable", "option", "op", "joined", "log", "die"} {
		run := []string{"run", "--transport", hostile, "--set", "do=" + longPrefix + how,
			"--repeats", "1", "--duration", "1ms", "--warmup", "0"}
		require.NotZero(t, c.Execute(run...), how)
		require.Contains(t, c.Stderr, "the device refuses because of this", how)
		require.Contains(t, c.Stderr, "characters left out) ... ", how)
		for line := range strings.Lines(c.Stderr + c.Stdout) {
			require.Less(t, len(line), longest, "%s: %.1000s", how, line)
		}
		if how != "die" { // whose output has lines of its own
			require.Contains(t, c.Stderr, "; install the driver\n", how)
		}
	}
	dir := t.TempDir()
	require.NotZero(t, c.Execute("sweep", "--transport", hostile, "--set", "do="+longPrefix+"op",
		"--repeats", "1", "--out", dir,
		"--plugin-dir", clitest.PluginDir(t, hostile)))
	for line := range strings.Lines(c.Stderr + c.Stdout) {
		require.Less(t, len(line), longest, line)
	}
	index, err := os.ReadFile(filepath.Join(dir, "index.json"))
	require.NoError(t, err)
	require.Contains(t, string(index), "characters left out")
	require.Less(t, len(index), 12000)
}

// TestHostilePluginsOnHosts: what they write and return passes through an agent.
func TestHostilePluginsOnHosts(t *testing.T) {
	for _, name := range []string{"SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
		"PMI_FD"} {
		t.Setenv(name, "") // of the engine that runs this test
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	ticket := hosts.Ticket{Token: hosts.Token{5}, Addresses: []string{address}}
	t.Setenv(engine.TicketVariable, ticket.String())
	hello, err := hosts.NewHello()
	require.NoError(t, err)
	c := &clitest.Command{T: t, Plugins: []string{hostile}, Run: runner.Run}
	for _, do := range []string{"fail", "panic", "exit", "unavailable", "option"} {
		dir, served := clitest.PluginDir(t, hostile), make(chan error, 1)
		go func() {
			conn, silence, err := hosts.Join(context.Background(), ticket, hello, time.Minute)
			if err == nil {
				err = agent.Serve(context.Background(), conn, silence, []string{dir})
			}
			served <- err
		}()
		require.NotZero(t, safely(c, "run", "--listen", address, "--agents", "1", "--transport",
			hostile, "--set", "do="+do,
			"--repeats", "1", "--duration", "1ms", "--warmup", "0", "-v"))
		require.Regexp(t, `(?m)^`+regexp.QuoteMeta(hello.Name)+`: rank [01]: .*u202e`, c.Stderr,
			"a line of its log")
		// The error has the last line of the log, which is either line of the text, because
		// two streams make up the log.
		require.Regexp(t, `(?m)^transportbench: .*(u202e|forged: line\\udb40)`, c.Stderr,
			"the error")
		require.ErrorIs(t, <-served, agent.ErrEnded)
	}
}

// poisoned returns a JSON document with poison in every string that parse accepts so, and with a
// poisonous name more in every object that it accepts so.
func poisoned(t *testing.T, text []byte, parse func([]byte) error) []byte {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var document any
	require.NoError(t, decoder.Decode(&document))
	encode := func() []byte {
		text, err := json.Marshal(document)
		require.NoError(t, err)
		return text
	}
	require.NoError(t, parse(encode()))
	all, made := 0, 0
	fields := map[string][]edit{}
	for _, e := range edits("", document) {
		fields[e.field] = append(fields[e.field], e)
	}
	for _, list := range fields { // a field of a type other than text refuses poison everywhere
		all += len(list)
		for _, e := range list {
			e.do()
		}
		if parse(encode()) == nil {
			made += len(list)
			continue
		}
		for _, e := range list {
			e.undo()
		}
	}
	t.Logf("%d of %d strings and objects are poisoned", made, all)
	require.Greater(t, 4*made, 3*all)
	return encode()
}

// edit puts poison at one place of a document, in the field of that name or in what it leads to.
type edit struct {
	field    string
	do, undo func()
}

func edits(field string, node any) []edit {
	var list []edit
	add := func(field string, child any, set func(any)) {
		if text, ok := child.(string); ok {
			list = append(list, edit{field, func() { set(text + poison) }, func() { set(text) }})
			return
		}
		list = append(list, edits(field, child)...)
	}
	switch node := node.(type) {
	case []any:
		for i, child := range node {
			add(field, child, func(v any) { node[i] = v })
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(node)) {
			add(name, node[name], func(v any) { node[name] = v })
		}
		if len(node) > 0 {
			like := node[slices.Min(slices.Collect(maps.Keys(node)))]
			list = append(list, edit{"{}" + field, func() { node["name"+poison] = like },
				func() { delete(node, "name"+poison) }})
		}
	}
	return list
}

// hostileFile writes a poisoned copy of a file of results below a directory whose name is poison.
func hostileFile(t *testing.T, text []byte, parse func([]byte) error) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.ReplaceAll(poison, "/", "")+"\xff")
	require.NoError(t, os.Mkdir(dir, 0o755))
	path := filepath.Join(dir, "file.json")
	require.NoError(t, os.WriteFile(path, poisoned(t, text, parse), 0o600))
	return path
}

func parseSet(text []byte) error {
	_, err := set.Parse(text, "file.json")
	return err
}

var packedData = regexp.MustCompile(`<script type="text/plain" id="[a-z0-9-]+">([^<]*)</script>`)

// requirePage checks a page of HTML and the data that it carries.
func requirePage(t *testing.T, page string) {
	t.Helper()
	requirePrintable(t, page, "page")
	require.NotContains(t, page, "</td><script>")
	parts := packedData.FindAllStringSubmatch(page, -1)
	require.NotEmpty(t, parts)
	for _, part := range parts {
		packed, err := base64.StdEncoding.DecodeString(part[1])
		require.NoError(t, err)
		z, err := gzip.NewReader(bytes.NewReader(packed))
		require.NoError(t, err)
		text, err := io.ReadAll(z)
		require.NoError(t, err)
		first, rest, _ := strings.Cut(string(text), "\n")
		var phrases []string // that a control character stands for
		require.NoError(t, json.Unmarshal([]byte(first), &phrases))
		for i, phrase := range phrases {
			rest = strings.ReplaceAll(rest, string(rune(1+i)), phrase)
		}
		requirePrintable(t, first+"\n"+rest, "data of the page")
	}
}

// requireFiles checks the names and texts of all files in a directory.
func requireFiles(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		requirePrintable(t, strings.TrimPrefix(path, dir), "name of a file")
		if err == nil && !entry.IsDir() {
			var text []byte
			if text, err = os.ReadFile(path); err == nil {
				requirePrintable(t, string(text), fmt.Sprintf("%q", path))
			}
		}
		return err
	}))
}

func TestHostileResults(t *testing.T) {
	const published = "../../../../results/"
	read := func(path string) []byte {
		text, err := files.Read(files.Packed(published+path), result.MaxSize)
		require.NoError(t, err)
		return text
	}
	// first returns a document that has only the first n of a list.
	first := func(path, list string, n int) []byte {
		var document map[string]any
		require.NoError(t, json.Unmarshal(read(path), &document))
		document[list] = document[list].([]any)[:n]
		if list == "repeats" { // as of a run on other hosts
			document["hosts"] = []any{map[string]any{"name": "h0", "machine": "m0",
				"address": "10.0.0.1", "cpus": []int{0}, "ranks": []int{0},
				"options":     map[string]string{"address": "10.0.0.1"},
				"device":      map[string]any{"name": "eth0", "node": 0},
				"environment": document["environment"]}}
		}
		text, err := json.Marshal(document)
		require.NoError(t, err)
		return text
	}
	const machine = "v0.5.0/amd-epyc-2core-vm/"
	one, err := filepath.Glob(published + machine + "cells/shm-*.json.gz")
	require.NoError(t, err)

	for name, text := range map[string][]byte{
		"result":    first(strings.TrimPrefix(one[0], published), "repeats", 1),
		"set":       first(machine+"index.json", "cells", 4),
		"published": read("published/mooncake-shm.json"),
	} {
		t.Run(name, func(t *testing.T) {
			c := &clitest.Command{T: t}
			path := hostileFile(t, text, parseSet)
			lines := [][]string{
				{"analyze", path}, {"analyze", path, "--json"},
				{"diff", path, path, "--across", "all", "-v"}, {"report", path, "-o", "-"},
				{"report", path, path, "-o",
					filepath.Join(t.TempDir(), strings.ReplaceAll(poison, "/", ""))},
				{"calibrate", "show", path},
			}
			for _, format := range inspect.ExportFormats {
				lines = append(lines, []string{"export", path, "--format", format})
			}
			for _, format := range comparison.DiffFormats {
				lines = append(lines, []string{"diff", path, path, "--all", "--format", format},
					[]string{"diff", path, "--along", "transport", "--format", format},
					[]string{"diff", path, "--along", "in-flight", "--format", format})
			}
			for _, line := range lines {
				safely(c, line...)
				require.NotEmpty(t, c.Stdout+c.Stderr, line)
			}
			require.Zero(t, safely(c, "report", path, "-o", "-"), c.Stderr)
			requirePage(t, c.Stdout)
			dir := t.TempDir()
			for _, format := range inspect.ExportFormats {
				safely(c, "export", path, "--format", format, "-o", filepath.Join(dir, format))
			}
			safely(c, "export", path, "--format", "hdr", "-o", dir+"/histograms/")
			safely(c, "report", path, path, "-o", filepath.Join(dir, "page.html"))
			requireFiles(t, dir)
			page, err := os.ReadFile(filepath.Join(dir, "page.html"))
			require.NoError(t, err)
			requirePage(t, string(page))
		})
	}
	t.Run("calibration", func(t *testing.T) {
		c := &clitest.Command{T: t}
		path := hostileFile(t, first(machine+"calibration.json", "experiments", 0),
			func(text []byte) error {
				_, err := calibration.Parse(text)
				return err
			})
		require.Zero(t, safely(c, "calibrate", "show", path), c.Stderr)
		require.Zero(t, safely(c, "calibrate", "show", path, "--json"), c.Stderr)
		safely(c, "analyze", path)
	})
	t.Run("errors", func(t *testing.T) {
		c := &clitest.Command{T: t}
		for name, text := range map[string]string{
			"sweep.yaml":  "transport: [\"" + `\u001b[2J\u202e` + "\"]\n" + poison + ": 1\n",
			"broken.yaml": poison, "not.json": poison,
			"kind.json":    `{"schema_version":"2.0.0","kind":"\u001b[2J\u202e\nforged"}`,
			"version.json": `{"schema_version":"\u001b[2J\u202e\nforged","kind":"run"}`,
		} {
			path := filepath.Join(t.TempDir(), poison[:9]+name)
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			for _, line := range [][]string{
				{"analyze", path}, {"sweep", path, "--dry-run"}, {"profiles", "show", path},
				{"run", "--profile", path}, {"run", "--config", path},
				{"calibrate", "show", path}, {"run", "--value-size", "file:" + path},
				{"diff", path, path, "-v"}, {"report", path},
			} {
				require.Equal(t, app.ExitUsage, safely(c, line...), "%q", line)
			}
		}
		for _, line := range [][]string{
			{poison}, {"run", "--" + poison}, {"run", "--transport", poison},
			{"run", "--set", poison}, {"run", "--set", poison + "=" + poison},
			{"plugins", "show", poison}, {"diff", poison, poison},
			{"export", poison, "--format", poison}, {"report", poison, "--slo", poison},
		} {
			require.NotZero(t, safely(c, line...), "%q", line)
		}
	})
}
