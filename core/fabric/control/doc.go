// Package control holds the control path that all transports share: the
// registry behind Transport.NewWorker and Close ([Workers]), the table of
// connections behind Worker.Connect ([Peers]), the errors that workers return
// ([Name], [PeerErrors]), the check of limits ([CheckLimits]), the queue of lost peers
// ([LostPeers]), what goes on with closed workers of a library ([Reaper]), and where a
// thread sleeps until the library has work ([Parking]).
//
// Post, Flush and Poll stay in each transport. Of this package they call three things that are
// made for the data path: Post asks [Peers.Admit] for the connection of each operation and
// returns [Peers.Refusal] if there is none, in a closed worker too; Poll calls [LostPeers.Report].
package control
