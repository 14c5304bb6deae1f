package calibrate

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"transportbench/core/base/machine"
	"transportbench/core/lab/result/set"
)

// Found is the last calibration of a machine.
type Found struct {
	// Identity is that of the machine, as sets have it.
	Identity map[string]string
	// Document is nil if there is no calibration, else Path is its file.
	Document *Document
	Path     string
	// Unused says why other calibrations do not count, a line each.
	Unused []string
}

// Find returns the last calibration of a machine. It reads the file [FileName] of each of the
// directories and those in the user's state directory. The last is the newest full one, or the newest
// quick one if none is full.
func Find(identity map[string]string, dirs ...string) Found {
	f := Found{Identity: identity}
	var paths []string
	for _, dir := range dirs {
		paths = append(paths, filepath.Join(dir, FileName))
	}
	own := len(paths)
	if path, err := StatePath(machine.Identity{}); err == nil {
		more, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.json"))
		paths = append(paths, more...)
	}
	var kernels []string
	for i, path := range paths {
		if _, err := os.Stat(path); err != nil || slices.Contains(paths[:i], path) {
			continue
		}
		d, err := Read(path)
		if err != nil {
			f.Unused = append(f.Unused, err.Error())
			continue
		}
		other, err := d.otherMachine(identity)
		switch {
		case err != nil:
			f.Unused = append(f.Unused, fmt.Sprintf("%s: %v", path, err))
		case len(other) == 0:
			if f.Document == nil || d.after(f.Document) {
				f.Document, f.Path = d, path
			}
		default:
			why := fmt.Sprintf("%s is of another machine: %s", path, strings.Join(other, ", "))
			switch {
			case i < own:
				f.Unused = append(f.Unused, why)
			case len(other) == 1 && strings.HasPrefix(other[0], "kernel "):
				kernels = append(kernels, why)
			}
		}
	}
	if f.Document == nil { // other machines may share the state directory, but this one may have a new kernel
		f.Unused = append(f.Unused, kernels...)
	}
	return f
}

// otherMachine lists what differs between a machine and that of the calibration.
func (d *Document) otherMachine(identity map[string]string) ([]string, error) {
	is, err := set.Flatten(d.Environment.Identity)
	if err != nil {
		return nil, err
	}
	var list []string
	keys := maps.Clone(is)
	maps.Copy(keys, identity)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if is[key] != identity[key] {
			list = append(list, fmt.Sprintf("%s %q instead of %q", key, is[key], identity[key]))
		}
	}
	return list, nil
}

// after reports whether d counts instead of other.
func (d *Document) after(other *Document) bool {
	if d.Quick != other.Quick {
		return other.Quick
	}
	return d.StartedAt.After(other.StartedAt)
}

// OfSets returns the last calibration of each machine on which cells of the sets were measured. It
// looks in the directories of the sets, too.
func OfSets(sets ...*set.Set) []Found {
	var (
		dirs     []string
		machines []map[string]string
	)
	for _, s := range sets {
		dirs = append(dirs, s.Directories()...)
		for i := range s.Cells {
			c := &s.Cells[i]
			id := s.Machine(c).Identity
			if c.Status == set.Measured && len(id) > 0 &&
				!slices.ContainsFunc(machines, func(known map[string]string) bool { return maps.Equal(known, id) }) {
				machines = append(machines, id)
			}
		}
	}
	var list []Found
	for _, id := range machines {
		list = append(list, Find(id, dirs...))
	}
	return list
}
