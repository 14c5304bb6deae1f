package listing

import (
	"maps"
	"slices"
	"time"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core/base/config"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/store/format"
)

// Runs returns the configuration of runs that have not started, and how long they take. Options
// that have their default, and that nothing sets, are counted unless all are to be listed.
func Runs(jobs []experiment.Run, s *options.Settings, takes time.Duration, all bool) *doc.Doc {
	out := new(doc.Doc)
	t := doc.NewTable("option", "value", "from").Wrap(20, "value")
	left := 0
	add := func(name, value, initial, origin string) {
		switch {
		case origin != "":
		case value != initial:
			origin = "other options"
		case !all:
			left++
			return
		default:
			origin = "default"
		}
		t.Row(name, value, origin)
	}
	for i := range jobs {
		add(options.KeyTransport, jobs[i].Config.Transport, config.Default().Transport,
			s.Origin(options.KeyTransport))
	}
	initial := config.Default()
	for _, f := range config.Fields() {
		add(f.Name, f.Show(&s.Config), f.Show(&initial), s.Origin(f.Name))
	}
	for i := range jobs {
		c := &jobs[i].Config
		defaults := map[string]string{}
		for _, o := range jobs[i].Plugin.Info.Options {
			defaults[o.Name] = o.Default
		}
		for _, name := range slices.Sorted(maps.Keys(c.Options)) {
			add(c.Transport+" "+name, c.Options[name], defaults[name],
				s.Origin(options.KeySet+"."+name))
		}
	}
	out.Add(t)
	if left > 0 {
		out.Line("%s more with defaults: -v lists them", format.Count(left, "option"))
	}
	out.Line("%s, about %s; results go to %s", format.Count(len(jobs), "run"), format.Left(takes),
		s.Out)
	return out
}
