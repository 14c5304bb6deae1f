package engine

import (
	"fmt"
	"slices"
	"strings"
)

// MaxHostfile is the size in bytes of the largest hostfile.
const MaxHostfile = 1 << 20

// ParseHosts returns the hosts of a list such as "a,user@b".
func ParseHosts(list string) ([]string, error) { return checkHosts(strings.Split(list, ",")) }

// ReadHostfile returns the hosts of a file with one in each line, and for each the words after its
// name. It ignores comments after # and, as there is one agent for each host, what MPI's hostfiles
// have, such as slots=4.
func ReadHostfile(text string) (hosts []string, options [][]string, err error) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 0 {
			hosts = append(hosts, words[0])
			options = append(options, slices.DeleteFunc(words[1:], func(word string) bool {
				name, _, _ := strings.Cut(word, "=")
				return slices.Contains(mpiWords, name)
			}))
		}
	}
	if len(hosts) == 0 {
		return nil, nil, fmt.Errorf("it has no hosts; write one in each line")
	}
	hosts, err = checkHosts(hosts)
	return hosts, options, err
}

// mpiWords are what the hostfiles of Open MPI have after a name.
var mpiWords = []string{"slots", "max_slots", "max-slots"}

func checkHosts(hosts []string) ([]string, error) {
	for i, host := range hosts {
		hosts[i] = strings.TrimSpace(host)
		switch {
		case hosts[i] == "" || hosts[i][0] == '-' || strings.ContainsAny(hosts[i], " \t"):
			return nil, fmt.Errorf("%q is no host", host)
		case slices.Contains(hosts[:i], hosts[i]):
			return nil, fmt.Errorf("%q is there twice; each host has one agent, and "+
				"--ranks-per-host says how many ranks", host)
		}
	}
	return hosts, nil
}
