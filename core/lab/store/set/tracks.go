package set

import (
	"maps"
	"slices"
	"strings"

	"transportbench/core/base/config"
)

// OnBothTracks adds to cells those that belong to the track matched too, as far as other transports
// have a cell of the same load there: a sweep measures a cell once if its tracks are the same. They
// are copies that say so.
func OnBothTracks(cells []*Cell, drop []string) []*Cell {
	matched := string(config.TrackMatched)
	loads := map[string]bool{}
	for _, c := range cells {
		if c.Config[trackOption] == matched {
			loads[c.Key(drop...)] = true
		}
	}
	all := slices.Clone(cells)
	for _, c := range cells {
		if c.Track() != BothTracks {
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

// TransportOptions returns the option transport and the names of all options of transports.
func (s *Set) TransportOptions() []string {
	names := []string{"transport"}
	for _, name := range Names(s.Cells) {
		if strings.HasPrefix(name, "options.") {
			names = append(names, name)
		}
	}
	return names
}

// SetByTrack returns the options that the track sets, which do not tell cells apart along it.
func (s *Set) SetByTrack() []string {
	names := []string{"verify_every"}
	for _, name := range Names(s.Cells) {
		own, isOwn := strings.CutPrefix(name, "options.")
		if isOwn && slices.ContainsFunc(s.Cells,
			func(c Cell) bool { _, sets := c.Plugin.Matched[own]; return sets }) {
			names = append(names, name)
		}
	}
	return names
}
