internal import ArgumentParser
internal import Foundation

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
