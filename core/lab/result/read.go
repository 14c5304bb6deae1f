package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// maxFileSize bounds what Read takes into memory.
const maxFileSize = 1 << 30

// ErrNewer is wrapped by the error for a file of a newer major version.
var ErrNewer = errors.New("written by a newer version")

// migration turns a document of one major version into one of the next. It
// may change the document in place.
type migration func(document map[string]any) error

// migrations has the way up from each older major version. It is empty since
// there is none yet.
var migrations = map[int]migration{}

// Read reads a result file of this or an older major version. Its errors name
// the file. Fields that this version does not know are left out.
func Read(path string) (*Result, error) {
	r, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading result %s: %w", path, err)
	}
	return r, nil
}

func readFile(path string) (*Result, error) {
	f, err := os.Open(path)
	if err != nil {
		var perr *os.PathError
		if errors.As(err, &perr) {
			err = perr.Err // the caller names the path
		}
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileSize {
		return nil, fmt.Errorf("larger than %d bytes: not a result", maxFileSize)
	}
	return Parse(data)
}

// Parse is [Read] of bytes.
func Parse(data []byte) (*Result, error) {
	if err := CheckJSON(data); err != nil {
		return nil, fmt.Errorf("not a result: %w", err)
	}
	major, err := identify(data)
	if err != nil {
		return nil, err
	}
	if data, err = migrate(data, major); err != nil {
		return nil, err
	}
	// The decoder refuses what does not fit the types, and comes first since
	// it is cheap; the schema then refuses what is missing.
	r := new(Result)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, Located(data, err)
	}
	if err := Validate(data); err != nil {
		return nil, err
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

// identify returns the major version of a document that claims to be a result.
func identify(data []byte) (major int, err error) {
	var head struct {
		SchemaVersion *string `json:"schema_version"`
		Kind          *string `json:"kind"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return 0, fmt.Errorf("not a result: %w", Located(data, err))
	}
	if head.SchemaVersion == nil || head.Kind == nil {
		return 0, errors.New("not a result: it has no schema_version or no kind")
	}
	if major, err = parseMajor(*head.SchemaVersion); err != nil {
		return 0, err
	}
	switch {
	case major > currentMajor:
		return 0, fmt.Errorf("%w: its schema is %q, and this transportbench reads up to %d.x; use the one that wrote it, or a newer one",
			ErrNewer, *head.SchemaVersion, currentMajor)
	case *head.Kind != KindRun:
		return 0, fmt.Errorf("kind %q is not %q", *head.Kind, KindRun)
	}
	return major, nil
}

func parseMajor(version string) (int, error) {
	parts := strings.Split(version, ".")
	numbers := make([]int, len(parts))
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || len(parts) != 3 {
			return 0, fmt.Errorf("schema_version %q is not a semantic version such as %q", version, SchemaVersion)
		}
		numbers[i] = int(n)
	}
	return numbers[0], nil
}

// migrate brings a document of an older major version up to the current one.
func migrate(data []byte, major int) ([]byte, error) {
	if major == currentMajor {
		return data, nil
	}
	var document map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // 64-bit integers survive
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	for ; major < currentMajor; major++ {
		up, found := migrations[major]
		if !found {
			return nil, fmt.Errorf("schema version %d.x can no longer be read; known are %s", major, knownMajors())
		}
		if err := up(document); err != nil {
			return nil, fmt.Errorf("migrating from schema version %d.x: %w", major, err)
		}
	}
	document["schema_version"] = SchemaVersion
	return json.Marshal(document)
}

func knownMajors() string {
	known := append(slices.Sorted(maps.Keys(migrations)), currentMajor)
	names := make([]string, len(known))
	for i, major := range known {
		names[i] = strconv.Itoa(major) + ".x"
	}
	return strings.Join(names, ", ")
}
