// Package replays draws the loads of services: replayed traces over their time, and hand-offs.
package replays
