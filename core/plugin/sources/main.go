package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"log"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// pkg is a package as go list describes it.
type pkg struct {
	ImportPath, Dir string
	// Module is nil in the standard library.
	Module                                    *struct{ Version string }
	Deps                                      []string
	GoFiles, CgoFiles, CFiles, HFiles, SFiles []string
}

// instrument is the plugin that is no transport: it imports little.
const instrument = "calibration"

func main() {
	log.SetFlags(0)
	if err := write(os.Stdout, os.Stdin, strings.Join(os.Args[1:], " ")); err != nil {
		log.Fatalf("sources: %v", err)
	}
}

// write writes NAME=DIGEST,... of the plugins among the packages that go list describes in list.
func write(w io.Writer, list io.Reader, settings string) error {
	packages, users := map[string]*pkg{}, map[string]int{}
	var plugins []*pkg
	for d := json.NewDecoder(list); ; {
		p := new(pkg)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("read the output of go list: %w", err)
		}
		packages[p.ImportPath] = p
		if path.Base(path.Dir(p.ImportPath)) == "plugins" {
			plugins = append(plugins, p)
		}
	}
	transports := 0
	for _, p := range plugins {
		if path.Base(p.ImportPath) != instrument {
			transports++
			for _, name := range p.Deps {
				users[name]++
			}
		}
	}
	slices.SortFunc(plugins, func(a, b *pkg) int { return cmp.Compare(a.ImportPath, b.ImportPath) })
	for i, plugin := range plugins {
		h := sha256.New()
		fmt.Fprintln(h, settings)
		own := slices.DeleteFunc(append(slices.Sorted(slices.Values(plugin.Deps)),
			plugin.ImportPath), func(name string) bool {
			return users[name] == transports || packages[name].Module == nil
		})
		for _, name := range own {
			if err := packages[name].hash(h); err != nil {
				return err
			}
		}
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprintf(w, "%s=%x", path.Base(plugin.ImportPath), h.Sum(nil))
	}
	return nil
}

// hash writes the code of a package to w, or the version of its module if it has one.
func (p *pkg) hash(w io.Writer) error {
	fmt.Fprintln(w, p.ImportPath, p.Module.Version)
	if p.Module.Version != "" {
		return nil
	}
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.CFiles, p.HFiles, p.SFiles) {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintln(w, name)
		if slices.Contains(p.GoFiles, name) {
			writeTokens(w, text)
		} else {
			fmt.Fprintf(w, "%d\n%s", len(text), text)
		}
	}
	return nil
}

// writeTokens writes the tokens of a Go file, and of its comments only directives.
func writeTokens(w io.Writer, text []byte) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(text)), text, nil, scanner.ScanComments)
	for {
		_, kind, literal := s.Scan()
		switch {
		case kind == token.EOF:
			return
		case kind == token.SEMICOLON: // its literal differs at the end of a line
			fmt.Fprintln(w, kind)
		case kind != token.COMMENT || strings.HasPrefix(literal, "//go:"):
			fmt.Fprintf(w, "%v %q\n", kind, literal)
		}
	}
}
