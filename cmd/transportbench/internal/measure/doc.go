// Package measure has the commands that measure. Each opens a session, which resolves its options,
// finds plugins and hosts and keeps an engine, and prints what a study or the engine made of it.
package measure
