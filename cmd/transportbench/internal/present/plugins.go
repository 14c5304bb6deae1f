package present

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"transportbench/core/plugin"
	"transportbench/core/transport"
)

// Plugin is what is known of one plugin binary.
type Plugin struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	// Unavailable says why it cannot run; it is empty where nothing is known
	// to be in the way.
	Unavailable string `json:"unavailable,omitempty"`
	// Description is absent where the plugin gave none.
	Description *plugin.Description `json:"description,omitempty"`
}

// Plugins writes one row for each plugin.
func Plugins(w io.Writer, plugins []Plugin) {
	t := newTable(w, "name", "version", "providers", "available", "sha256", "path")
	for _, p := range plugins {
		version, providers := "-", "-"
		if p.Description != nil {
			version = p.Description.Info.Version
			providers = strings.Join(p.Description.Info.Providers, ", ")
		}
		available := "yes"
		if p.Unavailable != "" {
			available = "no: " + p.Unavailable
		}
		t.AppendRow(table.Row{p.Name, version, providers, available, p.SHA256[:min(12, len(p.SHA256))], p.Path})
	}
	t.Render()
}

// PluginDetails writes all that a plugin says of itself.
func PluginDetails(w io.Writer, p Plugin) {
	if p.Description == nil {
		fmt.Fprintf(w, "%s is not available: %s\n%s\n", p.Name, p.Unavailable, p.Path)
		return
	}
	d, info := p.Description, p.Description.Info
	fmt.Fprintf(w, "%s %s: %s\n", info.Name, info.Version, info.Summary)
	if p.Unavailable != "" {
		fmt.Fprintf(w, "not available: %s\n", p.Unavailable)
	}
	fmt.Fprintf(w, "providers: %s\n", strings.Join(info.Providers, ", "))
	fmt.Fprintf(w, "path:      %s\nsha256:    %s\n", p.Path, p.SHA256)
	fmt.Fprintf(w, "runtime:   %s, revision %s, %s, digest %.12s\n", d.Version, d.Revision, d.Go, d.RuntimeDigest)

	fmt.Fprintf(w, "\nCapabilities: %s\n", strings.Join(capabilities(info.Capabilities), ", "))
	l := info.Limits
	fmt.Fprintf(w, "Limits: payload %s, inline %s, in flight %s, peers %s\n",
		transport.FormatSize(int64(l.MaxPayload)), transport.FormatSize(int64(l.InlineSize)), bound(l.InFlight), bound(l.Peers))
	if len(info.Options) == 0 {
		fmt.Fprintln(w, "\nIt has no options.")
		return
	}
	fmt.Fprintln(w, "\nOptions, for --set key=value:")
	t := newTable(w, "key", "type", "default", "allowed", "")
	for _, o := range info.Options {
		t.AppendRow(table.Row{o.Name, o.Type, text.WrapSoft(o.Default, 12), text.WrapSoft(allowed(o), 20), text.WrapSoft(o.Help, 32)})
	}
	t.Render()
}

// capabilities names those that are set, as results name them.
func capabilities(c transport.Capabilities) []string {
	var names []string
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if v.Field(i).Bool() {
			name := v.Type().Field(i).Tag.Get("json")
			names = append(names, strings.ReplaceAll(name, "_", " "))
		}
	}
	if len(names) == 0 {
		return []string{"none beyond the contract"}
	}
	return names
}

func bound(n int) string {
	if n == 0 {
		return "unbounded"
	}
	return strconv.Itoa(n)
}

func allowed(o transport.Option) string {
	switch {
	case len(o.Allowed) > 0:
		return strings.Join(o.Allowed, ", ")
	case o.Min == 0 && o.Max == 0:
		return "any"
	default:
		return fmt.Sprintf("%s to %s", boundOf(o.Type, o.Min), boundOf(o.Type, o.Max))
	}
}

func boundOf(kind transport.OptionType, n int64) string {
	switch kind {
	case transport.TypeSize:
		return transport.FormatSize(n)
	case transport.TypeDuration:
		return time.Duration(n).String()
	default:
		return strconv.FormatInt(n, 10)
	}
}
