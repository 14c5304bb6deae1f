package set

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"transportbench/core/base/config"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// ownPrefix begins the names of a transport's own options.
const ownPrefix = "options."

// Varying returns the options, except the transport, that differ between cells and are part of
// their keys. They are in the order in which they are shown.
func Varying(cells ...[]Cell) []string {
	first := map[string]string{}
	count := map[string]int{} // of the complete configurations that have it
	varies := map[string]bool{}
	whole := 0 // the number of complete configurations
	for _, list := range cells {
		for i := range list {
			one := 0
			if complete(list[i].Config) {
				one = 1
			}
			whole += one
			for name, value := range list[i].Config {
				// Options of two transports may only have the name in common.
				key := name
				if strings.HasPrefix(name, ownPrefix) {
					key = list[i].Config["transport"] + " " + name
				}
				if known, seen := first[key]; !seen {
					first[key] = value
				} else if known != value {
					varies[name] = true
				}
				count[name] += one
			}
		}
	}
	var names []string
	for name := range count {
		// An option that some cells lack varies too, because it is zero there. A transport's own
		// option does not: other transports do not have it.
		if name != "transport" && Concerns(name) &&
			(varies[name] || count[name] < whole && !strings.HasPrefix(name, ownPrefix)) {
			names = append(names, name)
		}
	}
	if slices.Contains(names, trackOption) {
		names = slices.DeleteFunc(names,
			func(name string) bool { return followsTrack(name, cells) })
	}
	if slices.Contains(names, networkOption) {
		names = slices.DeleteFunc(names, func(name string) bool {
			return strings.HasPrefix(name, ownPrefix) && follows(name, networkOption, cells)
		})
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	return names
}

const trackOption = "track"

// followsTrack reports whether the track sets an option and no cell differs from that, so that the
// track alone tells the cells apart.
func followsTrack(option string, cells [][]Cell) bool {
	own, isOwn := strings.CutPrefix(option, ownPrefix)
	if !isOwn && option != "verify_every" {
		return false
	}
	sets := !isOwn
	for _, list := range cells {
		for i := range list {
			c := &list[i]
			if _, has := c.Config[option]; !has {
				continue
			}
			if _, has := c.Plugin.Matched[own]; has {
				sets = true
			} else if isOwn && c.Plugin.Name != "" { // empty for cells that were not measured
				return false
			}
		}
	}
	return sets && follows(option, trackOption, cells)
}

// networkOption may set options of transports: the address that ranks have in a network of their
// own, or the faults with which a transport imitates the network.
const networkOption = "network"

// follows reports whether cells of one transport and profile that differ in an option also differ
// in the option it follows.
func follows(option, followed string, cells [][]Cell) bool {
	type group struct{ transport, profile, followed string }
	values := map[group]string{}
	for _, list := range cells {
		for i := range list {
			c := &list[i]
			value, has := c.Config[option]
			if !has {
				continue
			}
			g := group{c.Transport(), c.Config["profile"], c.Config[followed]}
			if known, seen := values[g]; seen && known != value {
				return false
			}
			values[g] = value
		}
	}
	return true
}

// loadOptions are the options that shape the load, in the order in which they are shown. Labels
// name them in all cells if they vary.
var loadOptions = []string{"topology", "ranks", "daemons", "clients", "in_flight", "rate",
	"value_size", "read_ratio", "distribution"}

// rank orders the options that shape the load first and a transport's own options last.
func rank(option string) int {
	if strings.HasPrefix(option, ownPrefix) {
		return 100
	}
	if i := slices.Index(loadOptions, option); i >= 0 {
		return i
	}
	return 50
}

// Common names the options of the load that all cells but the reference have alike, other than
// their defaults, and that labels do not name: "in_flight=16, value_size=4KiB".
func Common(cells []Cell) string {
	cells = slices.DeleteFunc(slices.Clone(cells), func(c Cell) bool { return c.isReference() })
	if len(cells) == 0 || cells[0].Config["replay"] != "" {
		return ""
	}
	varying := Varying(cells)
	var parts []string
	for _, name := range loadOptions {
		value, has := cells[0].Config[name]
		if has && value != defaults()[name] && !slices.Contains(varying, name) {
			parts = append(parts, name+"="+Value(name, value))
		}
	}
	return strings.Join(parts, ", ")
}

// Labels names cells by what tells them apart: the profile if there are several, and the options
// that vary among the cells of that profile. Of the options that do not shape the load, a label has
// those that differ from their default, and of a transport's own those that vary among its cells.
type Labels struct {
	profiles []string            // in order of appearance
	varying  map[string][]string // by profile
	own      map[string][]string // by transport
}

// LabelsOf returns the labels of cells that are shown together.
func LabelsOf(lists ...[]Cell) Labels {
	l := Labels{varying: map[string][]string{}, own: map[string][]string{}}
	byProfile, byTransport := map[string][]Cell{}, map[string][]Cell{}
	for _, list := range lists {
		for _, c := range list {
			profile := c.Config["profile"] // empty for published figures
			if profile != "" && byProfile[profile] == nil {
				l.profiles = append(l.profiles, profile)
			}
			byProfile[profile] = append(byProfile[profile], c)
			byTransport[c.Transport()] = append(byTransport[c.Transport()], c)
		}
	}
	for profile, cells := range byProfile {
		l.varying[profile] = Varying(cells)
	}
	for transport, cells := range byTransport {
		l.own[transport] = Varying(cells)
	}
	return l
}

// Without returns labels that leave out some options.
func (l Labels) Without(options ...string) Labels {
	varying := map[string][]string{}
	for profile, names := range l.varying {
		varying[profile] = slices.DeleteFunc(slices.Clone(names),
			func(name string) bool { return slices.Contains(options, name) })
	}
	l.varying = varying
	return l
}

// ofTrace are the options that follow from the trace that a cell replays.
var ofTrace = []string{"value_size", "mix", "part", "rate", "duration", "keys"}

// Load names what a cell with this configuration measures, without the transport. It is empty if
// the cells differ in the transport alone.
func (l Labels) Load(config map[string]string) string {
	var parts []string
	profile := config["profile"]
	if len(l.profiles) > 1 && profile != "" {
		parts = append(parts, profile)
	}
	for _, name := range l.varying[profile] {
		value, has := config[name]
		own, isOwn := strings.CutPrefix(name, ownPrefix)
		switch {
		case config["replay"] != "" && slices.Contains(ofTrace, name):
		case !has, isOwn && !slices.Contains(l.own[config["transport"]], name):
		case !isOwn && !slices.Contains(loadOptions, name) && value == defaults()[name]:
		default:
			parts = append(parts, own+"="+Value(name, value))
		}
	}
	return strings.Join(parts, " ")
}

// Of names a cell with this configuration: the transport and [Labels.Load].
func (l Labels) Of(config map[string]string) string {
	return strings.TrimSpace(config["transport"] + " " + l.Load(config))
}

// defaults returns the default configuration as text.
var defaults = sync.OnceValue(func() map[string]string {
	known, err := Flatten(config.Default())
	if err != nil {
		panic(err) // a configuration can be encoded
	}
	return known
})

// Value formats an option's value for display.
func Value(option, value string) string {
	if share, err := strconv.ParseFloat(value, 64); err == nil && option == "remote_share" {
		return config.Share(share).String()
	}
	if factor, err := strconv.ParseFloat(value, 64); err == nil && option == "speed" {
		return config.Speed(factor).String()
	}
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && strings.HasSuffix(option, "_size") {
		return transport.FormatSize(n)
	}
	if rate, err := strconv.ParseFloat(value, 64); err == nil && option == "rate" {
		if config.Rate(rate) == config.RateMax {
			return config.RateMax.String()
		}
		return shortRate(rate)
	}
	return strings.ReplaceAll(value, "µs", "us")
}

// Option returns a cell's value of an option. An option of a run that results leave out because it
// is zero is what users write for zero.
func (c *Cell) Option(name string) (value string, has bool) {
	if value, has = c.Config[name]; has {
		return value, true
	}
	if f := config.FieldByName(strings.ReplaceAll(name, "_", "-")); f != nil && complete(c.Config) {
		return f.Show(new(config.Config)), true
	}
	return "", false
}

// complete reports whether options are all those of a run, and not some of a published figure or of
// a reading of a microbenchmark. They lack those that are zero.
func complete(options map[string]string) bool {
	return options["duration"] != "" && options[MicroOption] == ""
}

// Shown is [Cell.Option] for display.
func (c *Cell) Shown(option string) (value string, has bool) {
	value, has = c.Option(option)
	return Value(option, value), has
}

// shortRate returns a rate in op/s as an option has it: "20k".
func shortRate(rate float64) string {
	for _, unit := range []struct {
		factor float64
		suffix string
	}{{1e6, "M"}, {1e3, "k"}} {
		if rate >= unit.factor {
			return strconv.FormatFloat(rate/unit.factor, 'g', -1, 64) + unit.suffix
		}
	}
	return strconv.FormatFloat(rate, 'g', -1, 64)
}

// Match reports whether options match a pattern such as "transport=shm,in_flight=3*", in which each
// value is a shell pattern, or a value of a run's option as users may write it: "10us",
// "value_size=4KiB", "track=shipped". A value without a name is that of the transport, so that "*"
// matches all, as the empty pattern does. A transport's own options do not need "options." before
// their names.
func Match(pattern string, options map[string]string) bool {
	if pattern == "" {
		return true
	}
	for part := range strings.SplitSeq(pattern, ",") {
		name, glob, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named {
			name, glob = "transport", name
		}
		name = strings.ReplaceAll(name, "-", "_")
		value, has := options[name]
		if f := config.FieldByName(strings.ReplaceAll(name, "_", "-")); f != nil &&
			(has || complete(options)) && f.Same(glob, value) {
			continue
		}
		if !has {
			value, has = ownOption(options, strings.TrimPrefix(name, ownPrefix))
		}
		if !has {
			return false
		}
		exact, _ := path.Match(glob, value)
		shown, _ := path.Match(glob, Value(name, value))
		if !exact && !shown {
			return false
		}
	}
	return true
}

func ownOption(options map[string]string, name string) (value string, has bool) {
	for option, value := range options {
		own, found := strings.CutPrefix(option, ownPrefix)
		if found && strings.ReplaceAll(own, "-", "_") == name {
			return value, true
		}
	}
	return "", false
}

// CheckPattern returns an error if [Match] cannot parse the pattern.
func CheckPattern(pattern string) error {
	_, err := path.Match(pattern, "")
	return err
}

// Names returns every option that any cell has.
func Names(cells ...[]Cell) []string {
	all := map[string]bool{}
	for _, list := range cells {
		for i := range list {
			for name := range list[i].Config {
				all[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// CompareValues compares two values of an option, as numbers if both are.
func CompareValues(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX == nil && errY == nil {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(a, b)
}

// Metrics returns the metrics that any cell has: known ones in the order in which they are shown,
// then others by name.
func Metrics(cells ...[]Cell) []string {
	present := map[string]bool{}
	for _, list := range cells {
		for i := range list {
			for name := range list[i].Samples {
				present[name] = true
			}
		}
	}
	var names []string
	for _, d := range result.Definitions {
		if present[d.Name] {
			names = append(names, d.Name)
			delete(present, d.Name)
		}
	}
	return append(names, slices.Sorted(maps.Keys(present))...)
}

// ShortNames names sets by the parts of their paths that not all of them have. Those of one path
// have numbers, too.
func ShortNames(paths []string) []string {
	parts := make([][]string, len(paths))
	for i, source := range paths {
		parts[i] = strings.Split(filepath.ToSlash(filepath.Clean(source)), "/")
	}
	common := func(part func(p []string, i int) string, kept int) (n int) {
		for ; len(parts) > 0; n++ {
			for _, p := range parts {
				if n >= len(p)-1-kept || part(p, n) != part(parts[0], n) {
					return n
				}
			}
		}
		return n
	}
	first := common(func(p []string, i int) string { return p[i] }, 0)
	last := common(func(p []string, i int) string { return p[len(p)-1-i] }, first)
	names, count := make([]string, len(paths)), map[string]int{}
	for i, p := range parts {
		names[i] = strings.Join(p[first:len(p)-last], "/")
		count[names[i]]++
	}
	for i, name := range names {
		if count[name] > 1 {
			names[i] = fmt.Sprintf("%d: %s", i+1, name)
		}
	}
	return names
}
