package bridge

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/set"
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
// largest change without a verdict, or else for the largest. It takes a version's plugins
// from kept or, if they are the present ones, from used. It is [compare.Bridge] if the old
// version's plugins are nowhere, and cannot be built here either.
func Command(r *compare.Report, old, new *set.Set, kept, used []string) string {
	controlled := func(c compare.Change) bool { return c.Control != nil }
	at := slices.IndexFunc(r.Changes, func(c compare.Change) bool {
		return controlled(c) && c.Verdict == compare.Ambiguous
	})
	if at < 0 {
		at = max(slices.IndexFunc(r.Changes, controlled), 0)
	}
	c := &r.Changes[at]
	a := find(old, c.Transport, slices.Concat(kept, used))
	if a == "" {
		return compare.Bridge
	}
	words := []string{"ab", load(c.Config, new), "--a", "plugin-dir=" + a}
	if b := find(new, c.Transport, slices.Concat(used, kept)); b != "" {
		words = append(words, "--b", "plugin-dir="+b)
	}
	return strings.Join(words, " ")
}

// find returns the directory with the plugin that measured a transport in a set, or what builds it;
// "" if it cannot be had.
func find(s *set.Set, transport string, dirs []string) string {
	at := slices.IndexFunc(s.Cells, func(c set.Cell) bool {
		return c.Status == set.Measured && c.Transport() == transport
	})
	if at < 0 {
		return ""
	}
	revision := ""
	if tools := s.Tools(); len(tools) == 1 && !strings.Contains(tools[0].Revision, "+") &&
		len(tools[0].Revision) >= revisionLength {
		revision = tools[0].Revision[:revisionLength]
	}
	name := "transport-" + transport
	sum := s.Cells[at].Plugin.SHA256
	for _, dir := range dirs {
		if path := filepath.Join(dir, name); sum != "" && sumOf(path) == sum {
			return dir
		}
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

// sumOf returns the SHA-256 of a file, or "" if it cannot be read.
func sumOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// load returns the flags of a cell's load: its transport, its profile, and the options in which the
// cells of that profile differ.
func load(config map[string]string, s *set.Set) string {
	profile := config["profile"]
	flags := []string{"--transport " + config["transport"],
		"--profile " + cmp.Or(profile, "echo")}
	others := slices.DeleteFunc(slices.Clone(s.Cells),
		func(c set.Cell) bool { return c.Config["profile"] != profile })
	for _, name := range set.Varying(others) {
		value, has := config[name]
		own, isOwn := strings.CutPrefix(name, "options.")
		switch {
		case !has || value == "":
		case isOwn:
			flags = append(flags, "--set "+own+"="+value)
		default:
			flags = append(flags, "--"+strings.ReplaceAll(name, "_", "-")+" "+value)
		}
	}
	return strings.Join(flags, " ")
}
