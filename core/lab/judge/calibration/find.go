package calibration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"transportbench/core"
	"transportbench/core/base/files"
	"transportbench/core/base/machine"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// Found is the last calibration of a machine.
type Found struct {
	// Identity is that of the machine, as sets have it.
	Identity map[string]string
	// Document is nil if there is no calibration, else Path is its file.
	Document *Document
	Path     string
	// Stale has the age of the calibration, and the version or runtime that it was made with if
	// those are not the present ones; else it is empty.
	Stale string
	// Unused says why other calibrations do not count, a line each.
	Unused []string
}

// Finder finds calibrations. It reads a file again only if its size or time has changed. The zero
// value is ready; it must not be used concurrently.
type Finder struct {
	files map[string]readFile
}

// readFile is a calibration as it was read, or why it was not.
type readFile struct {
	size     int64
	modified time.Time
	document *Document
	err      error
}

func (r *Finder) read(path string, info os.FileInfo) (*Document, error) {
	f, known := r.files[path]
	if !known || f.size != info.Size() || !f.modified.Equal(info.ModTime()) {
		f = readFile{size: info.Size(), modified: info.ModTime()}
		f.document, f.err = Read(path)
		if r.files == nil {
			r.files = map[string]readFile{}
		}
		r.files[path] = f
	}
	return f.document, f.err
}

// Find returns the last calibration of a machine. It reads the file [FileName] of each of the
// directories and those in the user's state directory. The last is the newest full one, or the
// newest quick one if none is full. One that was made later than tomorrow does not count.
func (r *Finder) Find(identity map[string]string, dirs ...string) Found {
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
	now := time.Now()
	var kernels []string
	for i, path := range paths {
		info, err := os.Stat(files.Packed(path))
		if err != nil || slices.Contains(paths[:i], path) {
			continue
		}
		d, err := r.read(path, info)
		if err != nil {
			f.Unused = append(f.Unused, err.Error())
			continue
		}
		other, err := d.otherMachine(identity)
		switch {
		case err != nil:
			f.Unused = append(f.Unused, fmt.Sprintf("%s: %v", path, err))
		case len(other) == 0 && d.StartedAt.After(now.Add(24*time.Hour)):
			f.Unused = append(f.Unused,
				fmt.Sprintf("%s does not count: started_at is in the future, %s", path,
					d.StartedAt.UTC().Format(time.DateOnly)))
		case len(other) == 0:
			if f.Document == nil || d.after(f.Document) {
				f.Document, f.Path = d, path
			}
		default:
			why := path + ofAnother + strings.Join(other, ", ")
			switch {
			case i < own:
				f.Unused = append(f.Unused, why)
			case len(other) == 1 && strings.HasPrefix(other[0], "kernel "):
				kernels = append(kernels, why)
			}
		}
	}
	// other machines may share the state directory, but this one may have a new kernel
	if f.Document == nil {
		f.Unused = append(f.Unused, kernels...)
		return f
	}
	if changed := f.Document.Changed(core.Version, core.RuntimeDigest()); len(changed) > 0 {
		f.Stale = f.Document.Age(now) + ", made with " + strings.Join(changed, "; ")
	}
	return f
}

// Changed lists what the calibration was made with that is not the present version or runtime.
func (d *Document) Changed(version, runtime string) []string {
	var changed []string
	if d.Tool.Version != version {
		changed = append(changed, fmt.Sprintf("version %s, and this is %s", d.Tool.Version,
			version))
	}
	if d.Plugin.RuntimeDigest != runtime {
		changed = append(changed, fmt.Sprintf("runtime %.12s, and this has %.12s",
			d.Plugin.RuntimeDigest, runtime))
	}
	return changed
}

// Age returns how long ago the calibration was made, in days.
func (d *Document) Age(now time.Time) string {
	days := int(now.Sub(d.StartedAt).Hours() / 24)
	if days <= 0 {
		return "today"
	}
	return format.Count(days, "day") + " old"
}

// ofAnother follows the path of a calibration that does not count for a machine.
const ofAnother = " is of another machine: "

// otherMachine lists what differs between a machine and that of the calibration.
func (d *Document) otherMachine(identity map[string]string) ([]string, error) {
	is, err := set.Flatten(d.Environment.Identity)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, key := range set.Differing(is, identity) {
		list = append(list, fmt.Sprintf("%s %q instead of %q", key, is[key], identity[key]))
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
func (r *Finder) OfSets(sets ...*set.Set) []Found {
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
				!slices.ContainsFunc(machines,
					func(known map[string]string) bool { return maps.Equal(known, id) }) {
				machines = append(machines, id)
			}
		}
	}
	var list []Found
	for _, id := range machines {
		list = append(list, r.Find(id, dirs...))
	}
	for i := range list { // the calibration of one machine is no news for the others
		list[i].Unused = slices.DeleteFunc(list[i].Unused, func(why string) bool {
			return slices.ContainsFunc(list, func(f Found) bool {
				return f.Document != nil && strings.HasPrefix(why, f.Path+ofAnother)
			})
		})
	}
	return list
}
