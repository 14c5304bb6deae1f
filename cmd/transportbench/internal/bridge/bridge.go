package bridge

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment/hosts/engine"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/set"
	"transportbench/core/plugin/host"
	"transportbench/core/transport"
)

// builder builds the plugins of a revision, in a checkout of this repository.
const builder = "scripts/old-plugins.sh"

// revisionLength is the length of the names of directories with kept plugins.
const revisionLength = 12

// Kept returns the directories with plugins of older versions, one for each: those that make
// install has kept beside the executable, and those that scripts/old-plugins.sh or a CI job has put
// into the user's cache.
func Kept(executable string) (dirs []string) {
	places := []string{filepath.Join(filepath.Dir(executable), "..", "lib/transportbench/kept")}
	if cache, err := os.UserCacheDir(); err == nil {
		places = append(places, filepath.Join(cache, "transportbench/plugins"))
	}
	for _, place := range places {
		found, _ := filepath.Glob(filepath.Join(place, "*"))
		dirs = append(dirs, found...)
	}
	return dirs
}

// Command returns the options of ab that measure the versions of both sets in turns, for the
// largest change without a verdict, or else for the largest: its whole configuration. It takes a
// version's plugins from kept or, if they are the present ones, from used. It is [compare.Bridge]
// if the old version's plugins are nowhere, and cannot be built here either. schemaOf returns the
// options of a transport by the plugin in a directory, or nil if there is none.
func Command(r *compare.Report, old, new *set.Set, kept, used []string,
	schemaOf func(dir, transport string) []transport.Option) string {
	fairer := func(c compare.Change) bool { return c.FairerInTurns() }
	at := slices.IndexFunc(r.Changes, func(c compare.Change) bool {
		return fairer(c) && c.Verdict == compare.Ambiguous
	})
	if at < 0 {
		at = max(slices.IndexFunc(r.Changes, fairer), 0)
	}
	c := &r.Changes[at]
	row := slices.IndexFunc(new.Cells, func(cell set.Cell) bool {
		return cell.Run != nil && maps.Equal(cell.Config, c.Config)
	})
	before := measured(old, c.Transport)
	a := find(old, before, slices.Concat(kept, used))
	if a == "" || row < 0 {
		return compare.Bridge
	}
	run := new.Cells[row].Run
	b := find(new, measured(new, c.Transport), slices.Concat(used, kept))
	var schemas [][]transport.Option
	for _, dir := range append([]string{a, b}, used...) {
		if schema := schemaOf(dir, c.Transport); schema != nil && len(schemas) < 2 {
			schemas = append(schemas, schema)
		}
	}
	words := slices.Concat([]string{"ab"}, flags(run), own(run, before, schemas),
		[]string{"--a", "plugin-dir=" + a})
	if b != "" {
		words = append(words, "--b", "plugin-dir="+b)
	}
	return strings.Join(words, " ")
}

// measured returns a cell of a transport that was measured, or nil.
func measured(s *set.Set, transport string) *set.Cell {
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Status == set.Measured && c.Transport() == transport {
			return c
		}
	}
	return nil
}

// find returns the directory with the plugin that measured a cell of a set, or what builds it; ""
// if it cannot be had.
func find(s *set.Set, cell *set.Cell, dirs []string) string {
	if cell == nil {
		return ""
	}
	revision := ""
	if tools := s.Tools(); len(tools) == 1 && !strings.Contains(tools[0].Revision, "+") &&
		len(tools[0].Revision) >= revisionLength {
		revision = tools[0].Revision[:revisionLength]
	}
	name := "transport-" + cell.Transport()
	sum := cell.Plugin.SHA256
	if p, err := host.FindExact(cell.Transport(), sum, dirs); sum != "" && err == nil {
		return filepath.Dir(p.Path)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil && revision != "" &&
			filepath.Base(dir) == revision {
			return dir
		}
	}
	if _, err := os.Stat(builder); err == nil && revision != "" {
		return "$(" + builder + " " + revision + ")"
	}
	return ""
}

// flags returns the flags that give the load of a run; ab has its own repeats. The trace of a
// replay is TRACE, because results have only its digest.
func flags(run *config.Config) []string {
	given := map[string]string{}
	list := []string{"--transport " + word(run.Transport)}
	add := func(f *config.Field) {
		text := f.Show(run)
		given[f.Name] = text
		switch {
		case f.Name == "replay":
			list = append(list, "--replay TRACE")
		case f.Type == transport.TypeBool:
			list = append(list, "--"+f.Name+"="+text)
		default:
			list = append(list, "--"+f.Name+" "+word(text))
		}
	}
	if _, err := config.ProfileByName(run.Profile); err == nil {
		add(config.FieldByName("profile"))
	}
	left := slices.DeleteFunc(slices.Clone(config.Fields()), func(f config.Field) bool {
		return slices.Contains([]string{"profile", "repeats", "launches"}, f.Name) ||
			run.Replays() && config.FieldByName("replay").Overrules(f.Name) &&
				!(run.Closed && f.Name == "duration")
	})
	if run.Replays() { // the trace sets these two unless they are given
		add(config.FieldByName("in-flight"))
		add(config.FieldByName("keys"))
	}
	for range left {
		// A configuration with some of the flags may be invalid; the next ones mend it.
		c, _, _ := config.Resolve(config.Layer{Values: given})
		differs := func(f config.Field) bool {
			_, has := given[f.Name]
			return !has && f.Show(&c) != f.Show(run)
		}
		at := slices.IndexFunc(left, func(f config.Field) bool {
			return len(f.Sets) > 0 && differs(f)
		})
		if at < 0 {
			at = slices.IndexFunc(left, differs)
		}
		if at < 0 {
			break
		}
		add(&left[at])
	}
	return list
}

// own returns the options of the transport itself that both sides know, without those that have
// their default by the schemas of the sides. A side that has to be built first is taken to have the
// defaults of the other, or of the present version; ab shows options in which the sides differ.
func own(run *config.Config, known *set.Cell, schemas [][]transport.Option) (list []string) {
	isDefault := func(name string) bool {
		same := false
		for _, schema := range schemas {
			for _, o := range schema {
				if o.Name == name && o.Default != run.Options[name] {
					return false
				}
				same = same || o.Name == name
			}
		}
		return same
	}
	for _, name := range slices.Sorted(maps.Keys(run.Options)) {
		if _, knows := known.Config["options."+name]; knows && !isDefault(name) {
			list = append(list, "--set "+word(name+"="+run.Options[name]))
		}
	}
	return list
}

var plain = regexp.MustCompile(`^[-\w./:=,%+]+$`)

// word returns a text as one word of a shell.
func word(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return engine.Quote(text)
}
