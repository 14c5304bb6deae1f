package set

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/lab/result"
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
	complete := 0
	for _, list := range cells {
		for i := range list {
			one := 0
			if _, whole := list[i].Config["duration"]; whole { // false for published figures
				one = 1
			}
			complete += one
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
		if name != "transport" && Concerns(name) && (varies[name] || count[name] < complete && !strings.HasPrefix(name, ownPrefix)) {
			names = append(names, name)
		}
	}
	if slices.Contains(names, trackOption) {
		names = slices.DeleteFunc(names, func(name string) bool { return followsTrack(name, cells) })
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
	type group struct{ transport, profile, track string }
	values := map[group]string{}
	sets := !isOwn
	for _, list := range cells {
		for i := range list {
			c := &list[i]
			value, has := c.Config[option]
			if !has {
				continue
			}
			if _, has := c.Plugin.Matched[own]; has {
				sets = true
			} else if isOwn && c.Plugin.Name != "" { // empty for cells that were not measured
				return false
			}
			g := group{c.Transport(), c.Config["profile"], c.Config[trackOption]}
			if known, seen := values[g]; seen && known != value {
				return false
			}
			values[g] = value
		}
	}
	return sets
}

// rank orders the options that shape the load first and a transport's own options last.
func rank(option string) int {
	if strings.HasPrefix(option, ownPrefix) {
		return 100
	}
	order := []string{"topology", "ranks", "daemons", "clients", "in_flight", "value_size", "read_ratio", "distribution"}
	if i := slices.Index(order, option); i >= 0 {
		return i
	}
	return 50
}

// Label returns [Label] of the cell's configuration.
func (c *Cell) Label(varying []string) string { return Label(c.Config, varying) }

// Label returns a name for display: the transport and the options that vary.
func Label(config map[string]string, varying []string) string {
	parts := []string{config["transport"]}
	for _, name := range varying {
		if value, has := config[name]; has {
			parts = append(parts, strings.TrimPrefix(name, ownPrefix)+"="+Value(name, value))
		}
	}
	return strings.Join(parts, " ")
}

// Value formats an option's value for display.
func Value(option, value string) string {
	if share, err := strconv.ParseFloat(value, 64); err == nil && option == "remote_share" {
		return config.Share(share).String()
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
	return value
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

// Match reports whether a configuration matches a pattern such as "transport=shm,in_flight=3*", in
// which each value is a shell pattern. A value without a name is that of the transport, so that "*"
// matches all, as the empty pattern does. A transport's own options do not need "options." before
// their names.
func Match(pattern string, config map[string]string) bool {
	if pattern == "" {
		return true
	}
	for part := range strings.SplitSeq(pattern, ",") {
		name, glob, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named {
			name, glob = "transport", name
		}
		name = strings.ReplaceAll(name, "-", "_")
		value, has := config[name]
		if !has {
			value, has = ownOption(config, name)
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

func ownOption(config map[string]string, name string) (value string, has bool) {
	for option, value := range config {
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
