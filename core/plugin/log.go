package plugin

import (
	"io"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// logLevel parses the level that the host sets. An invalid level is info.
func logLevel(text string) slog.Level {
	var level slog.Level
	if level.UnmarshalText([]byte(text)) != nil {
		return slog.LevelInfo
	}
	return level
}

// newLogger returns a logger that writes hclog's JSON lines, which go-plugin parses in the host.
func newLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) > 0 {
				return a
			}
			switch a.Key {
			case slog.TimeKey:
				return slog.String("@timestamp", a.Value.Time().Format(hclog.TimeFormatJSON))
			case slog.LevelKey:
				return slog.String("@level", strings.ToLower(a.Value.String()))
			case slog.MessageKey:
				return slog.Attr{Key: "@message", Value: a.Value}
			}
			return a
		},
	}))
}

// newHCLogger returns the logger of go-plugin itself.
func newHCLogger(w io.Writer, level slog.Level) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{
		Output:     w,
		JSONFormat: true,
		Level:      hclog.LevelFromString(strings.ToLower(level.String())),
	})
}
