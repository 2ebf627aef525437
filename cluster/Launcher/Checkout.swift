internal import Foundation

/// The launcher's checkout: its built server, and the directory of its memory.
struct Checkout {
    let root: String

    /// The shell commands name the checkout; without them, it is the one that contains the launcher.
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
            "This launcher is not in a Divan checkout.",
            cure: "Start it by cluster/start, or set DIVAN_CHECKOUT to the checkout."
        )
    }

    /// The directory of the launcher's memory; never committed.
    var memory: String { root + "/.divan" }

    /// The directory of a cluster without `--dir`.
    var defaultDirectory: String { memory + "/cluster" }

    /// The path of a built program of the checkout.
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

/// The administrator's login.
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
