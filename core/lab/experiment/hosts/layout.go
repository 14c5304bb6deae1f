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
	options []map[string]string
}

// OwnOptions are the options of the transport that differ on a host.
type OwnOptions struct {
	Host    string
	Options map[string]string
}

// ParseOptions returns the options in words such as "device=mlx5_0".
func ParseOptions(words []string) (map[string]string, error) {
	var options map[string]string
	for _, word := range words {
		name, value, found := strings.Cut(word, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("%q is no option of a transport, as device=mlx5_0 is", word)
		}
		if options == nil {
			options = map[string]string{}
		}
		options[name] = value
	}
	return options, nil
}

// SetOptions gives a host options of the transport that differ on it, besides those of the map.
func (l *Layout) SetOptions(host int, options map[string]string) {
	for name, value := range options {
		if l.options[host] == nil {
			l.options[host] = map[string]string{}
		}
		l.options[host][name] = value
	}
}

// Options returns the options of the transport that differ on a host.
func (l *Layout) Options(host int) map[string]string { return l.options[host] }

// OwnOptions returns those of all hosts.
func (l *Layout) OwnOptions() []OwnOptions {
	list := make([]OwnOptions, len(l.names))
	for i, name := range l.names {
		list[i] = OwnOptions{name, l.options[i]}
	}
	return list
}

// ParseMap returns the host of each rank in a map, as text, with the options that follow it.
func ParseMap(list string) (hosts []OwnOptions, err error) {
	for entry := range strings.SplitSeq(list, ",") {
		host, words := entry, strings.Fields(entry)
		if len(words) > 0 {
			host, words = words[0], words[1:]
		}
		own, err := ParseOptions(words)
		if err != nil {
			return nil, fmt.Errorf("--map: %w", err)
		}
		hosts = append(hosts, OwnOptions{host, own})
	}
	return hosts, nil
}

// NewLayout returns the layout of ranks over hosts, by their names. Rank r is on host r modulo
// their number; with perHost ranks for each, the first hosts are filled first. A map lists the host
// of each rank: "h0,h0,h1", or by number "0,0,1". Options that differ on a host may follow its
// name: "h0 device=mlx5_0,h1 device=mlx5_2".
func NewLayout(names []string, perHost int, list string) (*Layout, error) {
	l := &Layout{names: names, perHost: perHost, options: make([]map[string]string, len(names))}
	if list == "" {
		return l, nil
	}
	if perHost > 0 {
		return nil, fmt.Errorf("--map and --ranks-per-host exclude each other")
	}
	entries, err := ParseMap(list)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		host := slices.Index(names, entry.Host)
		if number, err := strconv.Atoi(entry.Host); host < 0 && err == nil && number >= 0 &&
			number < len(names) {
			host = number
		}
		if host < 0 {
			return nil, fmt.Errorf("--map: %q is no host of this run; they are %s", entry.Host,
				strings.Join(names, ", "))
		}
		l.SetOptions(host, entry.Options)
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
