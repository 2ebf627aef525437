internal import ArgumentParser
internal import Foundation
internal import OpenSSLPlatform
internal import Seams

/// Login and bucket: the options of every command that logs in.
struct AccountOptions: ParsableArguments {
    @Option(help: "Bucket (couchbase).")
    var bucket = "demo"

    @Option(help: "User (couchbase).")
    var user = "Administrator"

    @Option(help: "Password (couchbase); DIVAN_PASSWORD in the environment is another way.")
    var password: String?

    var secret: String {
        password ?? ProcessInfo.processInfo.environment["DIVAN_PASSWORD"] ?? "password"
    }
}

/// TLS: the options of every command that connects.
struct TLSOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "PEM file of the CAs to trust: connects with TLS. cluster/start --tls writes one.",
            valueName: "file"
        )
    )
    var cacert: String?

    /// The servers to believe; nil for plain ports.
    func trust() throws(BenchError) -> (any ServerTrust)? {
        guard let cacert else { return nil }
        guard let text = FileManager.default.contents(atPath: cacert) else {
            throw BenchError("cannot read \(cacert)")
        }
        do throws(TLSError) {
            return try TLSClient(authorities: [UInt8](text))
        } catch {
            throw BenchError("--cacert: \(cacert): \(error)")
        }
    }
}

/// The destination of the result.
struct ResultOptions: ParsableArguments {
    @Option(help: "File for the result as JSON.")
    var json: String?

    @Flag(help: "No progress line.")
    var quiet = false

    /// Writes the table to standard output, and the JSON to the named file.
    func write(_ text: String, json bytes: @autoclosure () -> [UInt8]) throws(BenchError) {
        if let json {
            guard FileManager.default.createFile(atPath: json, contents: Data(bytes())) else {
                throw BenchError("cannot write \(json)")
            }
        }
        do {
            try FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
        } catch {
            throw BenchError("cannot write the report to standard output: \(error)")
        }
    }
}

/// A command that reports a failure as one sentence and exit code 1.
protocol LoadCommand: ParsableCommand {
    func test() throws(BenchError)
}

extension LoadCommand {
    func run() throws {
        do throws(BenchError) {
            try test()
        } catch {
            try? FileHandle.standardError.write(contentsOf: Data("divan-bench: \(error)\n".utf8))
            throw ExitCode(1)
        }
    }
}
