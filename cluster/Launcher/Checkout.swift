internal import Foundation

/// Where this launcher belongs: a checkout, its built server, and the directory it remembers in.
struct Checkout {
    let root: String

    /// The shell commands say which checkout it is; started by hand, the launcher lies in it.
    init() throws {
        if let named = ProcessInfo.processInfo.environment["DIVAN_CHECKOUT"] {
            root = named
            return
        }
        var folder = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        while folder.path != "/" {
            folder.deleteLastPathComponent()
            if FileManager.default.fileExists(atPath: folder.appending(path: "Package.swift").path)
            {
                root = folder.path
                return
            }
        }
        throw Refusal(
            "This launcher lies in no Divan checkout.",
            cure: "Start it by cluster/start, or set DIVAN_CHECKOUT to the checkout."
        )
    }

    /// What the launcher remembers; never committed.
    var memory: String { root + "/.divan" }

    /// The directory of a cluster for which nobody named one.
    var defaultDirectory: String { memory + "/cluster" }

    /// One of the checkout's programs, built.
    func program(_ name: String) throws -> String {
        let path = root + "/.build/release/" + name
        guard access(path, X_OK) == 0 else {
            throw Refusal(
                "There is no program at \(path).",
                cure: "Run `make build`, or use the commands in cluster/, which build it."
            )
        }
        return path
    }
}

/// Who administers the cluster.
struct Credentials {
    let user: String
    let password: String
    let areDefault: Bool

    init() {
        let environment = ProcessInfo.processInfo.environment
        user = environment["DIVAN_USER"] ?? "Administrator"
        password = environment["DIVAN_PASSWORD"] ?? "password"
        areDefault = environment["DIVAN_USER"] == nil && environment["DIVAN_PASSWORD"] == nil
    }
}
