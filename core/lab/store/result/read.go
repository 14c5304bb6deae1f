package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/base/parallel"
	"transportbench/core/lab/store/jsondoc"
)

// MaxSize is the size in bytes of the largest result file.
const MaxSize = 1 << 30

// ErrNewer is wrapped by the error for a file of a newer major version.
var ErrNewer = errors.New("written by a newer version")

// migration turns a document of one major version into one of the next. It may change the
// document in place.
type migration func(document map[string]any) error

// migrations has the step up from each older major version.
var migrations = map[int]migration{1: migrateFrom1}

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
	major, err := majorOf(d)
	if err != nil {
		return nil, err
	}
	if d, err = migrated(d, major); err != nil {
		return nil, err
	}
	r := new(Result)
	if err := d.DecodeWhole(r); err != nil {
		return nil, err
	}
	r.addMeanings()
	err = parallel.Each(len(r.Repeats), func(i int) error { return r.Repeats[i].addSums() })
	if err != nil {
		return nil, err
	}
	r.Checks = Stands(r.Checks)
	// Analyses take time and memory for each rank, client and call.
	var size *config.Error
	if errors.As(r.Config.CheckSizes(), &size) {
		return nil, fmt.Errorf("config: %s: %s", size.Option, size.Problem)
	}
	return r, nil
}

var currentMajor = func() int {
	major, err := parseMajor(SchemaVersion)
	if err != nil {
		panic(err)
	}
	return major
}()

// majorOf returns the major version of a document that claims to be a result this version can read.
func majorOf(d *jsondoc.Document) (int, error) {
	if d.SchemaVersion == "" || d.Kind == "" {
		return 0, errors.New("not a result: it has no schema_version or no kind")
	}
	major, err := parseMajor(d.SchemaVersion)
	switch {
	case err != nil:
		return 0, err
	case major > currentMajor:
		return 0, fmt.Errorf("%w: its schema is %q, and this transportbench reads up to %d.x; "+
			"use the one that wrote it, or a newer one",
			ErrNewer, d.SchemaVersion, currentMajor)
	case d.Kind != KindRun:
		return 0, fmt.Errorf("kind %q is not %q", d.Kind, KindRun)
	}
	return major, nil
}

func parseMajor(version string) (int, error) {
	parts := strings.Split(version, ".")
	numbers := make([]int, len(parts))
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || len(parts) != 3 {
			return 0, fmt.Errorf("schema_version %q is not a semantic version such as %q", version,
				SchemaVersion)
		}
		numbers[i] = int(n)
	}
	return numbers[0], nil
}

// migrated returns the document in the current major version.
func migrated(d *jsondoc.Document, major int) (*jsondoc.Document, error) {
	if major == currentMajor {
		return d, nil
	}
	fields, err := d.Fields()
	if err != nil {
		return nil, err
	}
	for ; major < currentMajor; major++ {
		up, found := migrations[major]
		if !found {
			return nil, fmt.Errorf("schema version %d.x can no longer be read; known are %s", major,
				knownMajors())
		}
		if err := up(fields); err != nil {
			return nil, fmt.Errorf("migrating from schema version %d.x: %w", major, err)
		}
	}
	if fields["migrated_from"] == nil {
		fields["migrated_from"] = d.SchemaVersion
	}
	fields["schema_version"] = SchemaVersion
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

func knownMajors() string {
	known := append(slices.Sorted(maps.Keys(migrations)), currentMajor)
	names := make([]string, len(known))
	for i, major := range known {
		names[i] = strconv.Itoa(major) + ".x"
	}
	return strings.Join(names, ", ")
}

// withdrawn is a check of 0.8.0 and before. It took the loops on a transport that completes at once
// for time that the transport alone saves, but most of their work is done while the transport
// works.
const withdrawn = "harness"

// Stands returns the checks without those whose claim was withdrawn since.
func Stands(checks []Finding) []Finding {
	return slices.DeleteFunc(checks, func(f Finding) bool { return f.Name == withdrawn })
}
