package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/fabric/suggest"
)

// EnvPluginPath lists directories with plugins, separated by colons.
const EnvPluginPath = "TRANSPORTBENCH_PLUGIN_PATH"

// SetupError reports what the user has to change before plugins can be used.
type SetupError struct{ Err error }

func (e *SetupError) Error() string { return e.Err.Error() }

func (e *SetupError) Unwrap() error { return e.Err }

// fileName matches the name of a plugin's file; the group is the transport.
var fileName = regexp.MustCompile(`^transport-([a-z0-9]+)$`)

// Plugin is the binary of one transport. It is safe for concurrent use.
type Plugin struct {
	Name string // of the transport
	Path string // absolute

	digest func() (string, error)
	seen   atomic.Pointer[fingerprint] // before the file was read and had the digest
	now    func() time.Time
}

func newPlugin(name, path string) *Plugin {
	p := &Plugin{Name: name, Path: path, now: time.Now}
	p.digest = sync.OnceValues(func() (string, error) {
		p.see(fingerprintOf(path, p.now()))
		return sha256Of(path)
	})
	return p
}

func (p *Plugin) see(f fingerprint) { p.seen.Store(&f) }

// SHA256 returns the digest of the binary in hex. It reads the file once; every launch checks that
// the file still has this digest, and reads it again if the kernel shows a change.
func (p *Plugin) SHA256() (string, error) { return p.digest() }

func sha256Of(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // it may be a FIFO
	if err != nil {
		return "", err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// check returns an [*files.ExposedError] if another user could replace the file, and another error
// if it is no file that can be executed.
func (p *Plugin) check() error {
	err := files.CheckExposed(p.Path)
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(p.Path); err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", p.Path)
		}
	}
	if err != nil {
		return fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	return nil
}

// Dirs returns the directories to search for plugins, in order: explicit unless it is empty, those
// in EnvPluginPath, `plugins` beside the executable, the executable's own directory, and where make
// install puts plugins, `lib/transportbench/plugins` beside `bin`. The working directory and $PATH
// are never searched.
func Dirs(explicit string) ([]string, error) {
	var dirs []string
	if explicit != "" {
		dir, err := filepath.Abs(explicit)
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return nil, &config.Error{Option: "plugin-dir",
				Problem: fmt.Sprintf("%s is not a directory", explicit)}
		}
		if problem := unreadable(dir); problem != "" {
			return nil, &config.Error{Option: "plugin-dir", Problem: explicit + problem}
		}
		dirs = append(dirs, dir)
	}
	for _, dir := range filepath.SplitList(os.Getenv(EnvPluginPath)) {
		if dir == "" {
			continue
		}
		if !filepath.IsAbs(dir) {
			return nil, &SetupError{fmt.Errorf("%s: %q is not an absolute path; plugins are "+
				"never taken from the working directory",
				EnvPluginPath, dir)}
		}
		if problem := unreadable(dir); problem != "" {
			return nil, &SetupError{fmt.Errorf("%s: %s%s", EnvPluginPath, dir, problem)}
		}
		dirs = append(dirs, filepath.Clean(dir))
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the plugins beside the executable: %w", err)
	}
	beside := filepath.Dir(executable)
	return append(dirs, filepath.Join(beside, "plugins"), beside,
		filepath.Join(filepath.Dir(beside), "lib", "transportbench", "plugins")), nil
}

// unreadable returns why the plugins in a directory that exists cannot be found, or "".
func unreadable(dir string) string {
	err := unix.Access(dir, unix.R_OK|unix.X_OK)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return fmt.Sprintf(" cannot be read (%v): chmod u+rx it, or name another", err)
}

// Discover returns the plugins in dirs, sorted by name. If several directories have a file of the
// same name, the first one counts, also if it cannot be executed: describing it then says what to
// do. Directories that do not exist are ignored.
func Discover(dirs []string) []*Plugin {
	found := map[string]*Plugin{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			m := fileName.FindStringSubmatch(entry.Name())
			if m == nil || found[m[1]] != nil {
				continue
			}
			found[m[1]] = newPlugin(m[1], filepath.Join(dir, entry.Name()))
		}
	}
	return slices.SortedFunc(maps.Values(found),
		func(a, b *Plugin) int { return strings.Compare(a.Name, b.Name) })
}

// Find returns the plugin of the transport name, or a [*config.Error] that lists the plugins in
// dirs.
func Find(name string, dirs []string) (*Plugin, error) {
	plugins := Discover(dirs)
	names := make([]string, len(plugins))
	for i, p := range plugins {
		if p.Name == name {
			return p, nil
		}
		names[i] = p.Name
	}
	problem := fmt.Sprintf("there is no plugin %q in %s", name, strings.Join(dirs, ", "))
	switch hint := suggest.For(name, names); {
	case hint != "":
		problem += hint
	case len(names) > 0:
		problem += "; there are " + strings.Join(names, ", ")
	default:
		problem += ", nor any other: build them (make build), or name their directory with " +
			"--plugin-dir"
	}
	return nil, &config.Error{Option: "transport", Problem: problem}
}

// FindExact returns the plugin of the transport name in dirs whose file has the digest, or an error
// that tells the digests of the others.
func FindExact(name, digest string, dirs []string) (*Plugin, error) {
	if !fileName.MatchString("transport-" + name) {
		return nil, fmt.Errorf("%q is no transport's name", name)
	}
	var others []string
	for _, dir := range dirs {
		path := filepath.Join(dir, "transport-"+name)
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		p := newPlugin(name, path)
		sum, err := p.SHA256()
		switch {
		case err != nil:
			others = append(others, err.Error())
		case sum == digest:
			return p, nil
		default:
			others = append(others, fmt.Sprintf("%s has the digest %.12s", path, sum))
		}
	}
	if len(others) == 0 {
		return nil, fmt.Errorf("there is no plugin %q in %s: install the same build on all hosts",
			name, strings.Join(dirs, ", "))
	}
	return nil,
		fmt.Errorf("plugin %s: %s, the coordinator's %.12s: install the same build on all hosts",
			name, strings.Join(others, ", "), digest)
}
