package hosts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Layout assigns ranks to hosts.
type Layout struct {
	names   []string
	perHost int
	ranks   []int // the host of each rank; nil without a map
}

// NewLayout returns the layout of ranks over hosts, by their names. Rank r is on host r modulo
// their number; with perHost ranks for each, the first hosts are filled first. A map lists the host
// of each rank: "h0,h0,h1", or by number "0,0,1".
func NewLayout(names []string, perHost int, list string) (*Layout, error) {
	l := &Layout{names: names, perHost: perHost}
	if list == "" {
		return l, nil
	}
	if perHost > 0 {
		return nil, fmt.Errorf("--map and --ranks-per-host exclude each other")
	}
	for _, text := range strings.Split(list, ",") {
		host := slices.Index(names, text)
		if number, err := strconv.Atoi(text); host < 0 && err == nil && number >= 0 &&
			number < len(names) {
			host = number
		}
		if host < 0 {
			return nil, fmt.Errorf("--map: %q is no host of this run; they are %s", text,
				strings.Join(names, ", "))
		}
		l.ranks = append(l.ranks, host)
	}
	return l, nil
}

// Host returns the number of rank's host.
func (l *Layout) Host(rank int) (int, error) {
	switch {
	case l.ranks != nil:
		if rank >= len(l.ranks) {
			return 0,
				fmt.Errorf(
					"--map has the hosts of %d ranks: name that of each rank, or use fewer --ranks",
					len(l.ranks))
		}
		return l.ranks[rank], nil
	case l.perHost > 0:
		if host := rank / l.perHost; host < len(l.names) {
			return host, nil
		}
		return 0, fmt.Errorf("--ranks-per-host: %d on each of %d hosts are fewer than --ranks; "+
			"raise it, or use more hosts", l.perHost, len(l.names))
	}
	return rank % len(l.names), nil
}

// Hosts returns the hosts of the first n ranks.
func (l *Layout) Hosts(n int) ([]int, error) {
	list := make([]int, n)
	for rank := range list {
		var err error
		if list[rank], err = l.Host(rank); err != nil {
			return nil, err
		}
	}
	return list, nil
}
