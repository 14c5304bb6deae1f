package present

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"transportbench/core/base/config"
	"transportbench/core/lab/judge/doctor"
	"transportbench/core/plugin"
	"transportbench/core/transport"
)

// Plugin describes one plugin binary.
type Plugin struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	// Unavailable is the reason why the plugin cannot run, or empty if none is
	// known.
	Unavailable string `json:"unavailable,omitempty"`
	// Description is nil if the plugin gave none.
	Description *plugin.Description `json:"description,omitempty"`
	// Trial is what the transport took when it was opened, or nil if it was not.
	Trial *Trial `json:"trial,omitempty"`
}

// Trial is what a transport took with its default options on this machine.
type Trial struct {
	Provider string `json:"provider,omitempty"`
	// Chosen has what the transport took for options that leave the choice to it, and Reason why.
	Chosen map[string]string `json:"chosen,omitempty"`
	Reason string            `json:"reason,omitempty"`
	// Failed is the reason why the transport did not open.
	Failed string `json:"failed,omitempty"`
}

// Summary returns the provider and what was chosen: "posix (tls=posix)".
func (t *Trial) Summary() string {
	var chosen []string
	for _, option := range slices.Sorted(maps.Keys(t.Chosen)) {
		chosen = append(chosen, option+"="+t.Chosen[option])
	}
	if len(chosen) == 0 {
		return t.Provider
	}
	return t.Provider + " (" + strings.Join(chosen, ", ") + ")"
}

// Plugins writes when to choose each plugin, by what they need, and then one row per plugin.
func Plugins(w io.Writer, plugins []Plugin) {
	choices(w, plugins)
	t := newTable(w, "name", "version", "providers", "available", "sha256", "path").
		drop("path", "sha256", "version").wrap(16, "available", "providers")
	for _, p := range plugins {
		version, providers := "-", "-"
		if p.Description != nil {
			version = p.Description.Info.Version
			providers = strings.Join(p.Description.Info.Providers, ", ")
		}
		available := "yes"
		if p.Description != nil && p.Description.Info.Instrument {
			available = "by name only"
		}
		if p.Unavailable != "" {
			available = "no: " + p.Unavailable
		}
		t.AppendRow(table.Row{p.Name, version, providers, available, p.SHA256[:min(12, len(p.SHA256))], p.Path})
	}
	t.Render()
}

// choices writes when to choose each plugin that is a candidate, in the group of what it is made for.
// Plugins that do not say it come last.
func choices(w io.Writer, plugins []Plugin) {
	t := newTable(w, "made for", "name", "also runs on", "choose it").prose().drop("also runs on", "made for").wrap(32, "choose it")
	rows := 0
	add := func(group transport.Group, heading string) {
		for _, p := range plugins {
			if p.Description == nil {
				continue
			}
			info := p.Description.Info
			if info.Instrument || info.Group() != group {
				continue
			}
			t.AppendRow(table.Row{heading, p.Name, alsoOn(info), cmp.Or(info.Choose, "-")})
			heading = ""
			rows++
		}
	}
	for _, group := range transport.Groups() {
		add(group, string(group))
	}
	add("", "-")
	if rows > 0 {
		t.Render()
		fmt.Fprintln(w)
	}
}

// alsoOn names what a transport can run on besides what it is made for.
func alsoOn(info transport.Info) string {
	var names []string
	for _, group := range info.Groups[min(1, len(info.Groups)):] {
		names = append(names, string(group))
	}
	return cmp.Or(strings.Join(names, ", "), "-")
}

// PluginDetails writes the description of a plugin.
func PluginDetails(w io.Writer, p Plugin) {
	if p.Description == nil {
		fmt.Fprintf(w, "%s is not available: %s\n%s\n", p.Name, p.Unavailable, p.Path)
		return
	}
	d, info := p.Description, p.Description.Info
	fmt.Fprintf(w, "%s %s: %s\n", info.Name, info.Version, info.Summary)
	if group := info.Group(); group != "" {
		fmt.Fprintf(w, "made for %s, also runs on: %s\n", group, alsoOn(info))
	}
	if info.Choose != "" {
		fmt.Fprintf(w, "choose it %s\n", info.Choose)
	}
	if info.Instrument {
		fmt.Fprintln(w, "an instrument that tests the tool: --transport all leaves it out")
	}
	if p.Unavailable != "" {
		fmt.Fprintf(w, "not available: %s\n", p.Unavailable)
	}
	fmt.Fprintf(w, "providers: %s\n", strings.Join(info.Providers, ", "))
	if t := p.Trial; t != nil && t.Failed != "" {
		fmt.Fprintf(w, "opens:     not on this machine with the default options: %s\n", t.Failed)
	} else if t != nil {
		fmt.Fprintf(w, "opens:     %s, here and with the default options\n", t.Summary())
		if t.Reason != "" {
			paragraph(w, 0, 2, "why: "+t.Reason)
		}
	}
	fmt.Fprintf(w, "path:      %s\nsha256:    %s\n", p.Path, p.SHA256)
	fmt.Fprintf(w, "runtime:   %s, revision %s, %s, digest %.12s\n", d.Version, d.Revision, d.Go, d.RuntimeDigest)

	fmt.Fprintf(w, "\nCapabilities: %s\n", strings.Join(capabilities(info.Capabilities), ", "))
	l := info.Limits
	fmt.Fprintf(w, "Limits: payload %s, inline %s, in flight %s, peers %s\n",
		transport.FormatSize(int64(l.MaxPayload)), transport.FormatSize(int64(l.InlineSize)), limit(l.InFlight), limit(l.Peers))
	for _, option := range slices.Sorted(maps.Keys(info.Matched)) {
		fmt.Fprintf(w, "With --track matched: %s=%s\n", option, info.Matched[option])
	}
	if len(info.Options) == 0 {
		fmt.Fprintln(w, "\nThe transport has no options.")
		return
	}
	fmt.Fprintln(w, "\nOptions, for --set key=value:")
	t := newTable(w, "key", "type", "default", "allowed", "").prose().drop("type", "allowed").wrap(24, "")
	for _, o := range info.Options {
		t.AppendRow(table.Row{o.Name, o.Type, text.WrapSoft(o.Default, 12), text.WrapSoft(o.Range(), 20), o.Help})
	}
	t.Render()
}

// capabilities returns the names of those that are set, as in results.
func capabilities(c transport.Capabilities) []string {
	var names []string
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if v.Field(i).Bool() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, strings.ReplaceAll(name, "_", " "))
		}
	}
	if len(names) == 0 {
		return []string{"none beyond the contract"}
	}
	return names
}

func limit(n int) string {
	if n == 0 {
		return "unlimited"
	}
	return strconv.Itoa(n)
}

// Profiles writes one row per profile.
func Profiles(w io.Writer, profiles []config.Profile) {
	t := newTable(w, "name", "load").wrap(20, "load")
	for _, p := range profiles {
		t.AppendRow(table.Row{p.Name, p.Summary})
	}
	t.Render()
}

// nameOf returns the name of a finding, with that of its host if there are several.
func nameOf(f doctor.Finding) string {
	if f.Host != "" {
		return f.Host + ": " + f.Name
	}
	return f.Name
}

// Findings writes what doctor found, and remedies for what is not OK.
func Findings(w io.Writer, findings []doctor.Finding) {
	t := newTable(w, "", "what", "found").wrap(20, "found")
	wrong := 0
	for _, f := range findings {
		t.AppendRow(table.Row{f.Status, nameOf(f), f.Value})
		if f.Status != doctor.OK {
			wrong++
		}
	}
	t.Render()
	if wrong == 0 {
		fmt.Fprintln(w, "\nNothing to fix.")
		return
	}
	for _, status := range []doctor.Status{doctor.Bad, doctor.Warn, doctor.Note} {
		for _, f := range findings {
			if f.Status != status {
				continue
			}
			fmt.Fprintf(w, "\n%s: %s: %s\n  %s\n", f.Status, nameOf(f), f.Value, f.Meaning)
			if f.Remedy != "" {
				fmt.Fprintf(w, "  Remedy: %s\n", f.Remedy)
			}
		}
	}
}
