internal import ArgumentParser
internal import Bytes
internal import DivanClient
internal import Foundation
internal import JSON
internal import LinuxPlatform
internal import Seams

/// `divan-bench consume`: an outside consumer of the changes of a node's vBuckets.
struct ConsumeCommand: LoadCommand {
    static let configuration = CommandConfiguration(
        commandName: "consume",
        abstract: "Stream the changes of a node's vBuckets over DCP.",
        discussion: """
            Reads from the first change to the present and ends. With --idle, it opens the streams \
            at the present, prints a line when they are open, and ends with its standard input.
            """
    )

    @Option(help: "IP address of the node.")
    var host = "127.0.0.1"

    @Option(help: "Port of the node.")
    var port: UInt16 = 11_210

    @OptionGroup var tls: TLSOptions

    @OptionGroup var account: AccountOptions

    @Option(help: "Bytes that the node may send unacknowledged.")
    var buffer: UInt32 = 20 << 20

    @Flag(help: "Open the streams at the present, and wait.")
    var idle = false

    @Option(help: "Process of the server, to report its CPU time.")
    var serverPid: Int32?

    @OptionGroup var result: ResultOptions

    func test() throws(BenchError) {
        let world = LinuxEnvironment.make(reactors: 1, logLevel: .error)
        let trust = try tls.trust()
        let environment = trust.map { world.environment.secured(by: $0) } ?? world.environment
        let network = environment.network
        let tally = Guarded(ChangeConsumer.Tally())
        let connection = Guarded<(any ConnectionPort)?>(nil)
        let plan = plan()
        let nonce = world.environment.entropy.hex(16)
        network.connect(
            to: plan.address,
            connected: { port in
                connection.withLock { $0 = port }
                // The handler begins its login when it is woken.
                port.wake()
                return ChangeConsumer(plan, tally, nonce: nonce, port: port)
            },
            failed: { error in
                tally.withLock { $0.failure = BenchError(error.description) }
            }
        )
        try waitUntil(tally) { $0.isReady }
        let start = ContinuousClock.now
        let before = CPUUse.now(servers: serverPid.map { [$0] } ?? [])
        connection.withLock { $0 }?.wake()
        guard !idle else { return try waitIdly(tally) }
        let end = try waitUntil(tally) { $0.requested > 0 && $0.ended == $0.requested }
        let after = CPUUse.now(servers: serverPid.map { [$0] } ?? [])
        let outcome = Outcome(tally: end, seconds: ContinuousClock.now - start, before, after)
        try result.write(outcome.text, json: outcome.json)
    }

    private func plan() -> ChangeConsumer.Plan {
        ChangeConsumer.Plan(
            account: Login.Account(
                user: account.user,
                password: account.secret,
                bucket: account.bucket
            ),
            address: SocketAddress(host: host, port: port),
            isSecured: tls.cacert != nil,
            isIdle: idle,
            bufferBytes: buffer
        )
    }

    private func waitIdly(_ tally: Guarded<ChangeConsumer.Tally>) throws(BenchError) {
        try waitUntil(tally) { $0.requested > 0 && $0.opened == $0.requested }
        FileHandle.standardOutput.write(Data("ready\n".utf8))
        // The parent process holds the other end: when the parent ends, this process ends.
        _ = try? FileHandle.standardInput.readToEnd()
        if let failure = tally.withLock({ $0.failure }) { throw failure }
    }

    /// Waits until a condition holds.
    @discardableResult
    private func waitUntil(
        _ tally: Guarded<ChangeConsumer.Tally>,
        _ holds: (ChangeConsumer.Tally) -> Bool
    ) throws(BenchError) -> ChangeConsumer.Tally {
        while true {
            let now = tally.withLock { $0 }
            if let failure = now.failure { throw failure }
            if holds(now) { return now }
            usleep(500)
        }
    }
}

extension ConsumeCommand {
    /// What a consumer received, and what that cost.
    private struct Outcome {
        let streams: Int
        let changes: Int
        let bytes: Int
        let seconds: Double
        let serverSeconds: Double
        let driverSeconds: Double

        init(
            tally: ChangeConsumer.Tally,
            seconds: Duration,
            _ before: CPUUse,
            _ after: CPUUse
        ) {
            streams = tally.requested
            changes = tally.changes
            bytes = tally.bytes
            self.seconds = seconds / .seconds(1)
            serverSeconds = Double(after.server - before.server) / 1e9
            driverSeconds = Double(after.driver - before.driver) / 1e9
        }

        var text: String {
            let rate = Report.grouped(Double(bytes) / seconds / 1e6)
            return
                "\(Report.grouped(Double(changes))) changes of \(streams) vBuckets, \(rate) MB/s, "
                + "\(serverSeconds) s CPU of the server, \(driverSeconds) s of the consumer\n"
        }

        var json: [UInt8] {
            JSONWriter.text { json in
                json.object { json in
                    json.member("streams", streams)
                    json.member("changes", changes)
                    json.member("bytes", bytes)
                    json.member("seconds", seconds)
                    json.member("serverCPUSeconds", serverSeconds)
                    json.member("driverCPUSeconds", driverSeconds)
                }
            } + Array("\n".utf8)
        }
    }
}
