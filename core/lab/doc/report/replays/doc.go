// Package replays has the charts over the time of replayed traces.
package replays
