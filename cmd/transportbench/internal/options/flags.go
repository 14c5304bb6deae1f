package options

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"transportbench/core/base/config"
)

const kindBool = "bool"

// The keys that are not part of a run's configuration. Each is a flag, a
// variable and, except KeyConfig, a key of the configuration file.
const (
	KeyTransport  = "transport"
	keyClass      = "class"
	keyProfile    = "profile"
	KeySet        = "set"
	KeyOut        = "out"
	KeyJSON       = "json"
	KeyConfig     = "config"
	KeyPluginDir  = "plugin-dir"
	KeyAllowMixed = "allow-mixed-runtime"
	KeyVerbose    = "verbose"

	KeyStartTimeout = "start-timeout"
	KeyWitness      = "witness"

	KeyListen       = "listen"
	KeyAgents       = "agents"
	KeyJoinTimeout  = "join-timeout"
	KeyRanksPerHost = "ranks-per-host"
	KeyMap          = "map"
	KeyShareMachine = "share-machine"

	KeyHosts         = "hosts"
	KeyHostfile      = "hostfile"
	KeyLaunch        = "launch"
	KeyRemoteCommand = "remote-command"
)

// DefaultOut is the default directory for results.
const DefaultOut = "results/local"

// setting is a key that is not part of a run's configuration.
type setting struct {
	name, kind, initial, help string
}

var settings = []setting{
	{KeyTransport, "string", "", "transport to run: a name, a comma list, or all that can run here"},
	{KeySet, "key=value", "", "option of the transport itself, repeatable; see plugins show NAME"},
	{KeyOut, "string", DefaultOut, "directory for results"},
	{KeyJSON, kindBool, "false", "write only JSON to standard output"},
	{KeyConfig, "file", "", "configuration file: YAML, TOML or JSON"},
	{KeyPluginDir, "string", "", "directory to search first for plugins"},
	{KeyAllowMixed, kindBool, "false", "run plugins built from another version of the runtime"},
	{KeyStartTimeout, "duration", "10s", "time for a rank to start, to prepare and to connect, each; large configurations add to it"},
	{KeyWitness, kindBool, "false", "run the field's own benchmark before and after each window: ucx_perftest, fi_pingpong, ib_write_lat, sockperf, iperf3"},
	{KeyHosts, "hosts", "", "run the ranks on these hosts, through ssh: a,user@b"},
	{KeyHostfile, "file", "", "run the ranks on the hosts in this file, through ssh; one in each line"},
	{KeyLaunch, "command", "", "run the ranks on the hosts on which this command starts agents: \"srun -N2 --ntasks-per-node=1\""},
	{KeyRemoteCommand, "command", "", "how the other hosts call transportbench, if not by the path that it has here"},
	{KeyListen, "address", "", "run the ranks on other hosts: wait on HOST:PORT or :PORT for their agents"},
	{KeyAgents, "int", "0", "number of agents to wait for"},
	{KeyJoinTimeout, "duration", "0s", "how long to wait for all agents; 0 waits for as long as the engine runs"},
	{KeyRanksPerHost, "int", "0", "ranks on each host, the first hosts first; by default they are dealt out in turn"},
	{KeyMap, "hosts", "", "host of each rank, by name or number: h0,h0,h1"},
	{KeyShareMachine, kindBool, "false", "allow several agents on one machine"},
	{KeyVerbose, kindBool, "false", "show more detail, and the whole chain of an error"},
}

// AddCommon adds the flags that every command has.
func AddCommon(flags *pflag.FlagSet) {
	addSettings(flags, KeyConfig, KeyPluginDir, KeyVerbose)
}

// AddJSON adds --json.
func AddJSON(flags *pflag.FlagSet) { addSettings(flags, KeyJSON) }

// AddOut adds --out, which is initial by default.
func AddOut(flags *pflag.FlagSet, initial string) {
	addSettings(flags, KeyOut)
	flags.Lookup(KeyOut).DefValue = initial
}

// AddHosts adds the flags of a command that starts agents on other hosts.
func AddHosts(flags *pflag.FlagSet) {
	addSettings(flags, KeyHosts, KeyHostfile, KeyLaunch, KeyRemoteCommand, KeyListen, KeyAgents, KeyJoinTimeout, KeyShareMachine)
}

// AddRun adds the flags of a command that runs transports, except leaveOut,
// which the command sets itself. defaults are the command's own, by key. The
// flags also accept the names that a sweep file uses.
func AddRun(flags *pflag.FlagSet, defaults map[string]string, leaveOut ...string) {
	addSettings(flags, KeyTransport, KeySet, KeyOut, KeyAllowMixed, KeyStartTimeout, KeyWitness, KeyRanksPerHost, KeyMap)
	AddHosts(flags)
	for _, f := range config.Fields() {
		if !slices.Contains(leaveOut, f.Name) {
			addText(flags, f.Name, f.Form, f.Default, f.Help)
		}
	}
	if f := flags.Lookup(keyClass); f != nil {
		f.Value.(*textValue).separator = ";"
	}
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(config.Canonical(name, ""))
	})
	flags.Lookup(KeyTransport).DefValue = config.Default().Transport
	for key, value := range defaults {
		flags.Lookup(key).DefValue = value
	}
}

// AddMicro adds the flags of a command that runs a transport's
// microbenchmarks, by default for duration each.
func AddMicro(flags *pflag.FlagSet, duration string) {
	addSettings(flags, KeySet, KeyJSON, KeyOut)
	flags.Lookup(KeyOut).DefValue = ""
	flags.Lookup(KeyOut).Usage = "directory for the readings, which diff and report read"
	addText(flags, "duration", "duration", duration, "time of one measurement")
	addText(flags, "repeats", "int", "1", "times to take each measurement, each in a process of its own; fewer than 6 give no 95% interval")
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
}

// addText adds a flag that keeps its text. [Resolve] reads it, so flags,
// variables and files share one parser and one message.
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

// textValue is a flag's value before it is read.
type textValue struct {
	kind, text string
	separator  string // of a repeatable flag
}

func (v *textValue) String() string   { return v.text }
func (v *textValue) Type() string     { return v.kind }
func (v *textValue) IsBoolFlag() bool { return v.kind == kindBool }

// Set replaces the text, or adds to that of a repeatable flag.
func (v *textValue) Set(text string) error {
	if v.separator != "" && v.text != "" {
		text = v.text + v.separator + text
	}
	v.text = text
	return nil
}

// listValue is the value of a repeatable flag.
type listValue struct{ items []string }

func (v *listValue) String() string        { return strings.Join(v.items, ",") }
func (v *listValue) Type() string          { return "key=value" }
func (v *listValue) Set(text string) error { v.items = append(v.items, text); return nil }

// keys returns all settings and options.
func keys() []string {
	all := config.Names()
	for _, s := range settings {
		all = append(all, s.name)
	}
	return all
}

// SetItems returns the values of --set as they were given.
func SetItems(flags *pflag.FlagSet) []string {
	if f := flags.Lookup(KeySet); f != nil {
		return f.Value.(*listValue).items
	}
	return nil
}

// WithoutRun returns the flags that do not say what is measured, for a command
// that reads the others itself.
func WithoutRun(flags *pflag.FlagSet) *pflag.FlagSet {
	rest := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != KeyTransport && f.Name != KeySet && !config.IsOption(f.Name) {
			rest.AddFlag(f)
		}
	})
	return rest
}
