package options

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"transportbench/core/base/config"
	"transportbench/core/lab/sweep"
)

// The keys that are no part of a run's configuration. Each is a flag, a
// variable and, but for KeyConfig, a key of the configuration file.
const (
	KeyTransport  = "transport"
	KeySet        = "set"
	KeyOut        = "out"
	KeyJSON       = "json"
	KeyConfig     = "config"
	KeyPluginDir  = "plugin-dir"
	KeyAllowMixed = "allow-mixed-runtime"
	KeyVerbose    = "verbose"
)

// DefaultOut is the results directory unless told otherwise.
const DefaultOut = "results/local"

// setting is a key that is no part of a run's configuration.
type setting struct {
	name, kind, initial, help string
}

var settings = []setting{
	{KeyTransport, "string", "", "transport to run: a name, a comma list, or all that can run here"},
	{KeySet, "key=value", "", "option of the transport itself, repeatable; see plugins show NAME"},
	{KeyOut, "string", DefaultOut, "directory for results"},
	{KeyJSON, kindBool, "false", "write the result as JSON to standard output, and nothing else there"},
	{KeyConfig, "file", "", "configuration file: YAML, TOML or JSON"},
	{KeyPluginDir, "string", "", "look for plugins here first"},
	{KeyAllowMixed, kindBool, "false", "compare plugins built from different versions of the runtime"},
	{KeyVerbose, kindBool, "false", "say more, and show the whole chain of an error"},
}

// AddCommon adds the flags that every command has.
func AddCommon(flags *pflag.FlagSet) {
	addSettings(flags, KeyConfig, KeyPluginDir, KeyVerbose)
}

// AddJSON adds --json.
func AddJSON(flags *pflag.FlagSet) { addSettings(flags, KeyJSON) }

// AddRun adds the flags of a command that runs transports, all but those that
// it leaves out because it sets them itself. defaults are the command's own, by
// key. The flags go by the names that a sweep file has for them, too.
func AddRun(flags *pflag.FlagSet, defaults map[string]string, leaveOut ...string) {
	addSettings(flags, KeyTransport, KeySet, KeyOut, KeyAllowMixed)
	initial := config.Default()
	for _, o := range configOptions {
		if !slices.Contains(leaveOut, o.name) {
			addText(flags, o.name, o.kind, o.show(&initial), o.help)
		}
	}
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(sweep.Option(name))
	})
	flags.Lookup(KeyTransport).DefValue = initial.Transport
	for key, value := range defaults {
		flags.Lookup(key).DefValue = value
	}
}

// AddMicro adds the flags of a command that takes microbenchmarks of a transport, for
// duration each unless told otherwise.
func AddMicro(flags *pflag.FlagSet, duration string) {
	addSettings(flags, KeySet, KeyJSON)
	const name = "duration"
	for _, o := range configOptions {
		if o.name == name {
			addText(flags, name, o.kind, duration, "of one measurement")
		}
	}
}

func addSettings(flags *pflag.FlagSet, names ...string) {
	for _, s := range settings {
		switch {
		case !slices.Contains(names, s.name):
		case s.name == KeySet:
			flags.Var(&listValue{}, s.name, s.help)
		default:
			addText(flags, s.name, s.kind, s.initial, s.help)
		}
	}
	if f := flags.Lookup(KeyVerbose); f != nil {
		f.Shorthand = "v"
	}
}

// addText adds a flag whose text is read later, together with what variables
// and files say, so that one parser and one message serve all of them.
func addText(flags *pflag.FlagSet, name, kind, initial, help string) {
	shorthand := ""
	if name == KeyVerbose {
		shorthand = "v"
	}
	flag := flags.VarPF(&textValue{kind: kind}, name, shorthand, help)
	flag.DefValue = initial
	if kind == kindBool {
		flag.NoOptDefVal = "true"
	}
}

// textValue is a flag's value, unread.
type textValue struct {
	kind, text string
}

func (v *textValue) String() string        { return v.text }
func (v *textValue) Type() string          { return v.kind }
func (v *textValue) Set(text string) error { v.text = text; return nil }
func (v *textValue) IsBoolFlag() bool      { return v.kind == kindBool }

// flagText shows a flag to viper as text: of a number viper would make 0 where
// it cannot read it.
type flagText struct{ flag *pflag.Flag }

func (f flagText) HasChanged() bool    { return f.flag.Changed }
func (f flagText) Name() string        { return f.flag.Name }
func (f flagText) ValueString() string { return f.flag.Value.String() }
func (f flagText) ValueType() string   { return "string" }

// listValue is the value of a flag that may be repeated.
type listValue struct{ items []string }

func (v *listValue) String() string        { return strings.Join(v.items, ",") }
func (v *listValue) Type() string          { return "key=value" }
func (v *listValue) Set(text string) error { v.items = append(v.items, text); return nil }
