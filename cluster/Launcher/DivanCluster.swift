internal import ArgumentParser
internal import LinuxPlatform

/// Starts, stops and inspects the cluster of this checkout.
@main
struct DivanCluster: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "divan-cluster",
        abstract: "A local Divan cluster: one per checkout, its directory remembered.",
        discussion: """
            User and password are Administrator and password, unless DIVAN_USER and \
            DIVAN_PASSWORD are set.
            """,
        subcommands: [
            StartCommand.self, StopCommand.self, StatusCommand.self, KillCommand.self,
            LogsCommand.self, AddCommand.self, RemoveCommand.self, FailoverCommand.self,
            RecoverCommand.self, RebalanceCommand.self, DemoCommand.self,
        ]
    )
    /// The files of every command, and of the servers that it starts, are private.
    static func main() {
        PrivateFiles.setProcessMask()
        main(nil)
    }
}
