package calibrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"transportbench/core/base/files"
	"transportbench/core/base/machine"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/store/jsondoc"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// journalName is the file in the output directory that has every finished launch, until the
// calibration is complete.
const journalName = "calibration.journal"

const journalKind = "calibration journal"

// maxJournal is the size in bytes of the largest journal.
const maxJournal = 256 << 20

// Origin is what a calibration is of. A resumed one must be of the same plugin and machine.
type Origin struct {
	Argv        []string            `json:"argv"`
	Tool        result.Tool         `json:"tool"`
	Plugin      result.Plugin       `json:"plugin"`
	Environment machine.Environment `json:"environment"`
}

// originOf returns the origin of a calibration that begins now.
func originOf(e *experiment.Engine, plugins experiment.Plugins) Origin {
	return Origin{Argv: e.Argv, Tool: experiment.Tool(), Plugin: plugins[Transport].Identity,
		Environment: e.Environment}
}

// header is the first line of a journal.
type header struct {
	Kind      string    `json:"kind"`
	ID        string    `json:"id"`
	StartedAt time.Time `json:"started_at"`
	Digest    string    `json:"plan"`
	Quick     bool      `json:"quick"`
	Bases     Bases     `json:"bases"`
	Origin
}

// measured is a finished launch, a line of a journal.
type measured struct {
	launch
	TookS     float64 `json:"took_s"`
	ClockStep float64 `json:"clock_step_ns,omitempty"`
	// how many launches failed before this one
	Again   int                `json:"again,omitempty"`
	Window  set.Window         `json:"window"`
	Samples map[string]float64 `json:"samples"`
}

// ChangedError reports that a calibration cannot be resumed because something has changed.
type ChangedError struct{ Dir, What string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s: %s; choose another --out for a new calibration", e.Dir, e.What)
}

// ErrExists is wrapped by the error for a directory that already has an unfinished calibration.
var ErrExists = errors.New("there is an unfinished calibration already")

// journal keeps finished launches on disk. A line that a crash or a full disk cut off is dropped
// when the journal is opened again. It need not be durable: a power cut costs the launches of the
// last seconds.
type journal struct {
	header
	path string
	file *os.File
	done map[launch]measured
}

// Exists reports whether a directory has an unfinished calibration.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, journalName))
	return err == nil
}

// createJournal begins a journal in dir, which must not have one.
func createJournal(dir string, h header) (*journal, error) {
	j := &journal{header: h, path: filepath.Join(dir, journalName), done: map[launch]measured{}}
	h.Kind = journalKind
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	// The file appears with a complete header, so that every journal can be resumed.
	if err := files.Replace(j.path, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	}); err != nil {
		return nil, j.failed(err)
	}
	return j, j.append()
}

// append opens the file for writing at its end.
func (j *journal) append() (err error) {
	if j.file, err = files.Append(j.path); err != nil {
		return j.failed(err)
	}
	return nil
}

func (j *journal) failed(err error) error {
	return &result.IOError{Op: "writing the calibration's journal", Path: j.path, Err: err}
}

// openJournal reads the journal in dir and cuts off a torn line at its end.
func openJournal(dir string) (*journal, error) {
	j, whole, err := readJournal(dir)
	if err != nil {
		return nil, err
	}
	if err := j.append(); err != nil {
		return nil, err
	}
	// The open file has been checked; the path may lead to another one by now.
	if err := j.file.Truncate(whole); err != nil {
		j.close()
		return nil, j.failed(err)
	}
	return j, nil
}

// readJournal reads the journal in dir. It also returns the length of its complete lines.
func readJournal(dir string) (j *journal, whole int64, err error) {
	j = &journal{path: filepath.Join(dir, journalName), done: map[launch]measured{}}
	text, err := files.Read(j.path, maxJournal)
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s: %w", j.path, err)
	}
	first, rest, ended := bytes.Cut(text, []byte("\n"))
	if err := jsondoc.Decode(first, &j.header); err != nil || !ended || j.Kind != journalKind ||
		j.Bases.Memory <= 0 || j.Bases.Sockets < 0 {
		return nil, 0,
			fmt.Errorf("%s is not the journal of a calibration; remove it to begin again", j.path)
	}
	whole, err = j.read(rest)
	return j, whole + int64(len(first)) + 1, err
}

// read reads the lines after the header and returns the length of those that are complete.
func (j *journal) read(text []byte) (whole int64, err error) {
	for number := 2; len(text) > 0; number++ {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		if !ended {
			return whole, nil // torn
		}
		var m measured
		if err := jsondoc.Decode(line, &m); err != nil {
			return 0, fmt.Errorf("%s: line %d: %w; remove the file to begin again", j.path,
				number, err)
		}
		j.done[m.launch] = m
		whole, text = whole+int64(len(line))+1, rest
	}
	return whole, nil
}

// add appends a finished launch.
func (j *journal) add(m measured) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(text, '\n')); err != nil {
		return j.failed(err)
	}
	j.done[m.launch] = m
	return nil
}

// check returns an error if the calibration to resume is another one.
func (j *journal) check(dir string, p *Plan, o Origin) error {
	changed := func(format string, args ...any) error {
		return &ChangedError{dir, fmt.Sprintf(format, args...)}
	}
	kind := map[bool]string{false: "full", true: "quick"}
	if j.Quick != p.Quick {
		return changed("the calibration to resume is a %s one, not a %s one", kind[j.Quick],
			kind[p.Quick])
	}
	if was, is := j.Plugin.SHA256, o.Plugin.SHA256; was != is {
		return changed("the plugin of transport %s has changed since the calibration began "+
			"(SHA-256 %.12s, now %.12s)", o.Plugin.Name, was, is)
	}
	was, err := set.Flatten(j.Environment.Identity)
	if err != nil {
		return err
	}
	is, err := set.Flatten(o.Environment.Identity)
	if err != nil {
		return err
	}
	if keys := set.Differing(was, is); len(keys) > 0 {
		return changed("the machine's %s was %q and is now %q", keys[0], was[keys[0]], is[keys[0]])
	}
	if j.Digest != p.Digest() {
		return changed(
			"this transportbench measures another plan than the one that began the calibration")
	}
	for _, m := range j.done {
		if !p.has(m.launch) {
			return changed("the journal has a launch that is not in the plan")
		}
	}
	return nil
}

// has reports whether l is a launch of the plan.
func (p *Plan) has(l launch) bool {
	if l.Experiment < 0 || l.Experiment >= len(p.Experiments) {
		return false
	}
	e := &p.Experiments[l.Experiment]
	return l.Cell >= 0 && l.Cell < len(e.Cells) && l.Round >= 0 && l.Round < e.Rounds
}

func (j *journal) close() { j.file.Close() }

// remove deletes the journal once its calibration is stored.
func (j *journal) remove() error {
	if err := os.Remove(j.path); err != nil {
		return j.failed(err)
	}
	return nil
}
