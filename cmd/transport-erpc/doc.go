// Command transport-erpc is the plugin of the erpc transport.
package main
