internal import ArgumentParser

/// The program: loads a server that speaks memcached binary, Couchbase's or Redis's protocol, and
/// reports the results.
@main
struct DivanBench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "divan-bench",
        abstract: "Load test for Divan, memcached and Redis.",
        subcommands: [
            RunCommand.self, SteadyCommand.self, CheckCommand.self, ConsumeCommand.self,
            NullCommand.self,
        ],
        defaultSubcommand: RunCommand.self
    )
}
