internal import ArgumentParser
internal import Foundation
internal import LinuxPlatform
internal import Seams

/// `divan-bench null`: the server that only answers.
struct NullCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "null",
        abstract: "Answer memcached binary requests without reading them, until killed."
    )

    @Option(help: "Port; 0 for any.")
    var port: UInt16 = 0

    @Option(help: "Bytes of the value that answers every GET.")
    var valueBytes = 1_024

    func run() throws {
        let world = LinuxEnvironment.make(reactors: 1, logLevel: .warning)
        let bytes = valueBytes
        let listener = try world.environment.network.listen(
            on: SocketAddress(host: "127.0.0.1", port: port),
            accept: { _ in ConstantReplies(valueBytes: bytes) }
        )
        FileHandle.standardOutput.write(Data("\(listener.address.port)\n".utf8))
        // The parent process holds the other end: when the parent ends, this process ends.
        _ = try? FileHandle.standardInput.readToEnd()
    }
}

/// The server that only answers, in its own process, so that its CPU time is counted separately.
final class NullServer {
    let port: UInt16
    private let process = Process()
    private let input = Pipe()

    var pid: Int32 { process.processIdentifier }

    init(core: Int?, valueBytes: Int) throws(BenchError) {
        let output = Pipe()
        let program = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        let arguments = ["null", "--value-bytes", "\(valueBytes)"]
        if let core {
            process.executableURL = URL(filePath: "/usr/bin/taskset")
            process.arguments = ["--cpu-list", "\(core)", program.path] + arguments
        } else {
            process.executableURL = program
            process.arguments = arguments
        }
        process.standardInput = input
        process.standardOutput = output
        do {
            try process.run()
        } catch {
            throw BenchError("cannot start the answering server: \(error)")
        }
        let line = output.fileHandleForReading.availableData
        let text = String(decoding: line, as: UTF8.self).filter(\.isNumber)
        guard let port = UInt16(text) else {
            throw BenchError("the answering server did not start")
        }
        self.port = port
    }

    func stop() {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
    }
}
