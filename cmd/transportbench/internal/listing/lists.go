package listing

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/lab/doc"
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

// Plugins returns when to choose each plugin, by what they need, and then one row per plugin.
func Plugins(plugins []Plugin) *doc.Doc {
	out := new(doc.Doc)
	choices(out, plugins)
	t := doc.NewTable("name", "version", "providers", "available", "sha256", "path").
		Drop("path", "sha256", "version").Wrap(16, "available", "providers")
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
		t.Row(p.Name, version, providers, available, p.SHA256[:min(12, len(p.SHA256))], p.Path)
	}
	out.Add(t)
	return out
}

// choices writes when to choose each plugin that is a candidate, in the group of what it is made
// for. Plugins that do not say it come last.
func choices(out *doc.Doc, plugins []Plugin) {
	t := doc.NewTable("made for", "name", "also runs on", "choose it").Short().Drop("also runs on",
		"made for").Wrap(32, "choose it")
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
			t.Row(heading, p.Name, alsoOn(info), cmp.Or(info.Choose, "-"))
			heading = ""
			rows++
		}
	}
	for _, group := range transport.Groups() {
		add(group, string(group))
	}
	add("", "-")
	if rows > 0 {
		out.Add(t)
		out.Gap()
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

// PluginDetails returns the description of a plugin.
func PluginDetails(p Plugin) *doc.Doc {
	out := new(doc.Doc)
	if p.Description == nil {
		out.Line("%s is not available: %s\n%s", p.Name, p.Unavailable, p.Path)
		return out
	}
	d, info := p.Description, p.Description.Info
	out.Line("%s %s: %s", info.Name, info.Version, info.Summary)
	if group := info.Group(); group != "" {
		out.Line("made for %s, also runs on: %s", group, alsoOn(info))
	}
	if info.Choose != "" {
		out.Line("choose it %s", info.Choose)
	}
	if info.Instrument {
		out.Line("an instrument that tests the tool: --transport all leaves it out")
	}
	if p.Unavailable != "" {
		out.Line("not available: %s", p.Unavailable)
	}
	out.Line("providers: %s", strings.Join(info.Providers, ", "))
	if t := p.Trial; t != nil && t.Failed != "" {
		out.Line("opens:     not on this machine with the default options: %s", t.Failed)
	} else if t != nil {
		out.Line("opens:     %s, here and with the default options", t.Summary())
		if t.Reason != "" {
			out.Paragraph("why: " + t.Reason)
		}
	}
	out.Line("path:      %s\nsha256:    %s", p.Path, p.SHA256)
	out.Line("runtime:   %s, revision %s, %s, digest %.12s", d.Version, d.Revision, d.Go,
		d.RuntimeDigest)

	out.Line("\nCapabilities: %s", strings.Join(capabilities(info.Capabilities), ", "))
	l := info.Limits
	out.Line("Limits: payload %s, inline %s, in flight %s, peers %s",
		transport.FormatSize(int64(l.MaxPayload)), transport.FormatSize(int64(l.InlineSize)),
		limit(l.InFlight), limit(l.Peers))
	for _, option := range slices.Sorted(maps.Keys(info.Matched)) {
		out.Line("With --track matched: %s=%s", option, info.Matched[option])
	}
	if len(info.Options) == 0 {
		out.Line("\nThe transport has no options.")
	} else {
		out.Line("\nOptions, for --set key=value:")
		out.Add(optionTable(info.Options))
	}
	if len(info.MicroOptions) > 0 {
		out.Line("\nOptions of its microbenchmarks, for micro %s --set key=value:", info.Name)
		out.Add(optionTable(info.MicroOptions))
	}
	return out
}

func optionTable(list []transport.Option) *doc.Table {
	t := doc.NewTable("key", "type", "default", "allowed", "").Short().Drop("type", "allowed").Wrap(
		24, "").MaxWidth(12, "default").MaxWidth(20, "allowed")
	for _, o := range list {
		t.Row(o.Name, o.Type, o.Default, o.Range(), o.Help)
	}
	return t
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

// Profiles returns one row per profile.
func Profiles(profiles []config.Profile) *doc.Doc {
	out := new(doc.Doc)
	t := doc.NewTable("name", "load").Wrap(20, "load")
	for _, p := range profiles {
		t.Row(p.Name, p.Summary)
	}
	out.Add(t)
	return out
}
