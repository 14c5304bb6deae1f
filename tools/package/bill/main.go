// Command bill says what a package is made of. It reads which Go modules are linked into programs,
// and writes their licences and a bill of materials (CycloneDX 1.6). On standard output it prints
// the oldest C library that the programs run with, as Depends of a Debian package has it, or nothing
// if they need none.
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// part is a component of the bill. Purl, the package URL, is its identity.
type part struct {
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	Purl       string     `json:"purl,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licences   []licensed `json:"licenses,omitempty"`
	Properties []property `json:"properties,omitempty"`

	licence string
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type licensed struct {
	Licence struct {
		ID string `json:"id"`
	} `json:"license"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bill: ")
	source := flag.String("source", ".", "directory of the main module")
	version := flag.String("version", "", "version of the package")
	built := flag.Int64("time", 0, "time of the build, in seconds since 1970")
	npm := flag.String("npm", "", "an embedded npm package: NAME@VERSION=LICENCE-FILE")
	copyright := flag.String("copyright", "", "file for the licences")
	bom := flag.String("bom", "", "file for the bill of materials")
	flag.Parse()

	parts, libc := read(flag.Args(), *source)
	if name, file, ok := strings.Cut(*npm, "="); ok {
		name, of, _ := strings.Cut(name, "@")
		parts = append(parts, part{Type: "library", Name: name, Version: of,
			Purl: "pkg:npm/" + name + "@" + of, licence: string(must(os.ReadFile(file)))})
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
	})
	for i := range parts {
		parts[i].Licences = identify(parts[i])
	}
	check(os.WriteFile(*copyright, licences(parts, *version), 0o644))
	check(os.WriteFile(*bom, bill(parts, *version, time.Unix(*built, 0)), 0o644))
	if libc != "" {
		fmt.Printf("libc6 (>= %s)\n", libc)
	}
}

// read returns the programs and the modules that are linked into them, and the newest version of the
// C library whose symbols they import.
func read(programs []string, source string) (parts []part, libc string) {
	modules := map[string]*debug.Module{}
	golang := ""
	for _, program := range programs {
		info := must(buildinfo.ReadFile(program))
		golang = strings.TrimPrefix(info.GoVersion, "go")
		for _, m := range info.Deps {
			modules[m.Path] = m
		}
		sum := sha256.Sum256(must(os.ReadFile(program)))
		parts = append(parts, part{Type: "file", Name: filepath.Base(program),
			Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}})
		libc = newest(libc, program)
	}
	parts = append(parts, part{Type: "library", Name: "std", Version: golang,
		Purl: "pkg:golang/std@" + golang, licence: licence(goEnv("GOROOT"))})
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path)
		list.Dir, list.Stderr = source, os.Stderr
		dir := strings.TrimSpace(string(must(list.Output())))
		m := modules[path]
		parts = append(parts, part{Type: "library", Name: path, Version: m.Version,
			Purl:       "pkg:golang/" + path + "@" + m.Version,
			Properties: []property{{"go:sum", m.Sum}}, licence: licence(dir)})
	}
	return parts, libc
}

// licenceFile matches the names of files that must go with copies of a module.
var licenceFile = regexp.MustCompile(`(?i)^(un)?licen[sc]e|^copying|^notice`)

// licence returns the texts of the licence of the module in dir. A module without one is an error:
// it may not be passed on.
func licence(dir string) string {
	var texts []string
	for _, entry := range must(os.ReadDir(dir)) {
		if licenceFile.MatchString(entry.Name()) && entry.Type().IsRegular() {
			text := must(os.ReadFile(filepath.Join(dir, entry.Name())))
			texts = append(texts, strings.TrimSpace(string(text)))
		}
	}
	if texts == nil {
		log.Fatalf("%s has no licence file", dir)
	}
	return strings.Join(texts, "\n\n")
}

// identify returns the SPDX identifiers of the licences in a part's text. Each is recognised by words
// that it contains and, for BSD-2-Clause, by words that it lacks.
func identify(p part) (list []licensed) {
	text := strings.ToLower(strings.Join(strings.Fields(p.licence), " "))
	for _, l := range [][3]string{
		{"Apache-2.0", "apache license"}, {"MPL-2.0", "mozilla public license"},
		{"MIT", "permission is hereby granted, free of charge"}, {"BSD-3-Clause", "neither the name"},
		{"BSD-2-Clause", "redistribution and use in source", "neither the name"},
	} {
		if strings.Contains(text, l[1]) && (l[2] == "" || !strings.Contains(text, l[2])) {
			list = append(list, licensed{})
			list[len(list)-1].Licence.ID = l[0]
		}
	}
	if list == nil && text != "" {
		log.Fatalf("%s: its licence is none that this command knows", p.Name)
	}
	return list
}

func licences(parts []part, version string) []byte {
	byText := map[string][]string{}
	var order []string
	for _, p := range parts {
		if p.licence == "" {
			continue
		}
		if byText[p.licence] == nil {
			order = append(order, p.licence)
		}
		byText[p.licence] = append(byText[p.licence], p.Name+" "+p.Version)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "transportbench %s has no licence yet: its owner will choose one.\n"+
		"Its programs contain the following, under these licences.\n", version)
	for _, text := range order {
		rule := strings.Repeat("=", 78)
		fmt.Fprintf(&out, "\n%s\n%s\n%s\n\n%s\n", rule, strings.Join(byText[text], "\n"), rule, text)
	}
	return out.Bytes()
}

func bill(parts []part, version string, built time.Time) []byte {
	text := must(json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": map[string]any{
			"timestamp": built.UTC().Format(time.RFC3339),
			"component": part{Type: "application", Name: "transportbench", Version: version},
		},
		"components": parts,
	}, "", "  "))
	return append(text, '\n')
}

// newest returns the later of version and the newest version of the C library that program needs.
func newest(version, program string) string {
	file := must(elf.Open(program))
	defer file.Close()
	symbols, err := file.ImportedSymbols()
	if err != nil {
		return version // linked statically
	}
	for _, s := range symbols {
		v, ok := strings.CutPrefix(s.Version, "GLIBC_")
		if ok && slices.Compare(numbers(v), numbers(version)) > 0 {
			version = v
		}
	}
	return version
}

// numbers returns the numbers of a version such as 2.34.
func numbers(version string) []int {
	var list []int
	for field := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(field)
		list = append(list, n)
	}
	return list
}

func goEnv(name string) string {
	return strings.TrimSpace(string(must(exec.Command("go", "env", name).Output())))
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
