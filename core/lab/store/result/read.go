package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/lab/store/jsondoc"
)

// MaxSize is the size in bytes of the largest result file.
const MaxSize = 1 << 30

// ErrNewer is wrapped by the error for a file of a newer major version.
var ErrNewer = errors.New("written by a newer version")

// Read reads a result file of this or an older major version and skips fields that this version
// does not know. Errors name the file.
func Read(path string) (*Result, error) {
	text, err := files.Read(path, MaxSize)
	if err != nil {
		return nil, fmt.Errorf("reading result %s: %w", path, err)
	}
	r, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("reading result %s: %w", path, err)
	}
	return r, nil
}

// Parse is [Read] of text.
func Parse(text []byte) (*Result, error) {
	d, err := jsondoc.New(text)
	if err != nil {
		return nil, fmt.Errorf("not a result: %w", err)
	}
	return Of(d)
}

// Of returns a document as a result.
func Of(d *jsondoc.Document) (*Result, error) {
	d, err := migrated(d)
	if err != nil {
		return nil, err
	}
	r := new(Result)
	if err := d.DecodeWhole(r); err != nil {
		return nil, err
	}
	r.addMeanings()
	if err := r.AddSums(); err != nil {
		return nil, err
	}
	r.Checks = Stands(r.Checks)
	for i := range r.Checks { // results of 0.9.0 and before have it in the message alone
		c := &r.Checks[i]
		c.NotJudged = c.NotJudged || c.OK && strings.HasPrefix(c.Message, Unjudged)
	}
	// Analyses take time and memory for each rank, client and call.
	var size *config.Error
	if errors.As(r.Config.CheckSizes(), &size) {
		return nil, fmt.Errorf("config: %s: %s", size.Option, size.Problem)
	}
	return r, nil
}

// currentMajor is the major version of [SchemaVersion].
const currentMajor = 2

var semantic = regexp.MustCompile(`^(\d{1,5})\.\d{1,5}\.\d{1,5}$`)

// migrated returns a document in the current major version if it claims to be a result that this
// version can read.
func migrated(d *jsondoc.Document) (*jsondoc.Document, error) {
	if d.SchemaVersion == "" || d.Kind == "" {
		return nil, errors.New("not a result: it has no schema_version or no kind")
	}
	version := semantic.FindStringSubmatch(d.SchemaVersion)
	if version == nil {
		return nil, fmt.Errorf("schema_version %q is not a semantic version such as %q",
			d.SchemaVersion, SchemaVersion)
	}
	major, err := strconv.Atoi(version[1])
	switch {
	case err != nil:
		return nil, err
	case major > currentMajor:
		return nil, fmt.Errorf("%w: its schema is %q, and this transportbench reads up to %d.x; "+
			"use the one that wrote it, or a newer one",
			ErrNewer, d.SchemaVersion, currentMajor)
	case d.Kind != KindRun:
		return nil, fmt.Errorf("kind %q is not %q", d.Kind, KindRun)
	case major == currentMajor:
		return d, nil
	case major < 1:
		return nil, fmt.Errorf("schema version %d.x can no longer be read; known are 1.x, %d.x",
			major, currentMajor)
	}
	fields, err := d.Fields()
	if err != nil {
		return nil, err
	}
	migrateFrom1(fields)
	fields["migrated_from"], fields["schema_version"] = d.SchemaVersion, SchemaVersion
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return jsondoc.New(text)
}

// Major returns the major version of a schema's version as text.
func Major(version string) string {
	major, _, _ := strings.Cut(version, ".")
	return major
}

// withdrawn is a check of 0.8.0 and before. It took the loops on a transport that completes at once
// for time that the transport alone saves, but most of their work is done while the transport
// works.
const withdrawn = "harness"

// Stands returns the checks without those whose claim was withdrawn since.
func Stands(checks []Finding) []Finding {
	return slices.DeleteFunc(checks, func(f Finding) bool { return f.Name == withdrawn })
}
