package compare

import (
	"maps"
	"slices"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/lab/store/set"
)

const trackOption = "track"

// onBothTracks adds to cells those that belong to the track matched too, as far as other transports
// have a cell of the same load there: a sweep measures a cell once if its tracks are the same. They
// are copies that say so.
func onBothTracks(cells []*set.Cell, drop []string) []*set.Cell {
	matched := string(config.TrackMatched)
	loads := map[string]bool{}
	for _, c := range cells {
		if c.Config[trackOption] == matched {
			loads[c.Key(drop...)] = true
		}
	}
	all := slices.Clone(cells)
	for _, c := range cells {
		if c.Track() != set.BothTracks {
			continue
		}
		both := *c
		both.Config = maps.Clone(c.Config)
		both.Config[trackOption] = matched
		if loads[both.Key(drop...)] {
			all = append(all, &both)
		}
	}
	return all
}

// setByTrack returns the options that the track sets, which do not tell cells apart along it.
func setByTrack(s *set.Set) []string {
	names := []string{"verify_every"}
	for _, name := range set.Names(s.Cells) {
		own, isOwn := strings.CutPrefix(name, "options.")
		if isOwn && slices.ContainsFunc(s.Cells,
			func(c set.Cell) bool { _, sets := c.Plugin.Matched[own]; return sets }) {
			names = append(names, name)
		}
	}
	return names
}
