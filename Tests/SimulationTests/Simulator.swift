import Foundation

/// The simulator's program.
enum Simulator {
    static var path: String {
        URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
            .deletingLastPathComponent().appending(path: "divan-simulator").path
    }

    /// Runs it to its end.
    static func run(_ options: [String]) throws -> (status: Int32, lines: [Substring]) {
        let process = Process()
        process.executableURL = URL(filePath: path)
        process.arguments = options
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        let lines = String(decoding: text, as: UTF8.self).split(separator: "\n")
        return (process.terminationStatus, lines)
    }
}
