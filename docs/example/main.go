// Command transport-framed is the plugin of a transport over TCP, with one connection for each
// peer. It is the example of docs/write-a-transport.md: complete, and as small as possible.
package main

import "transportbench/core/plugin"

func main() { plugin.Main(driver{}) }
