internal import Bytes
internal import Credentials
internal import Orchestration
internal import Seams

/// The secret with which a node without a cluster accepts changes from other machines.
///
/// It is in a file of the data directory, which only the node's own user can read: knowing it proves access
/// to the machine. Without it the first client that reaches a new node would become its administrator.
///
/// - The token exists exactly while the node has no cluster: a node that leaves one makes another token.
/// - The token is in no log and no output; only its file's path is.
package final class InitToken: Sendable {
    /// The file's name in the data directory.
    package static let fileName = "init-token"
    /// Bytes of randomness: enough that it cannot be guessed.
    private static let byteCount = 16

    private let file: String
    private let disk: any Disk
    private let entropy: any Entropy
    private let token = Guarded<[UInt8]?>(nil)

    init(in directory: String, _ environment: Environment) {
        file = "\(directory)/\(Self.fileName)"
        disk = environment.disk
        entropy = environment.entropy
    }

    /// Whether a text has the form of a token.
    static func isWellFormed(_ text: String) -> Bool {
        text.utf8.count == 2 * byteCount
            && text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    }

    /// The path of the file; nil while the node has a cluster.
    package var path: String? { token.withLock { $0 == nil ? nil : file } }

    /// Whether the token exists exactly if it is needed.
    func isCurrent(isNeeded: Bool) -> Bool { token.withLock { ($0 != nil) == isNeeded } }

    /// The token, as its file has it; nil while the node has a cluster.
    package var text: String? { token.withLock { $0.map { String(decoding: $0, as: UTF8.self) } } }

    /// The proof that this node or another one has the token; nil while the node has a cluster.
    func proof(by side: TokenProof.Side, adding: [UInt8], waiting: [UInt8]) -> [UInt8]? {
        text.map { TokenProof.make($0, by: side, adding: adding, waiting: waiting) }
    }

    /// Whether a password is the token; false while the node has a cluster.
    package func isRight(_ password: String) -> Bool {
        guard let token = token.withLock({ $0 }) else { return false }
        return areEqualInConstantTime(token, Array(password.utf8))
    }

    /// Makes the token if it is needed and there is none, and removes its file if it is not needed.
    ///
    /// A restarted node keeps the token of its file, which an operator may have read already.
    ///
    /// - Throws: `DiskError` if the file cannot be read, written or removed; nothing was changed then.
    func reconcile(isNeeded: Bool) throws(DiskError) {
        guard isNeeded else {
            try disk.remove(file)
            return token.withLock { $0 = nil }
        }
        guard token.withLock({ $0 == nil }) else { return }
        let kept = try disk.read(file).map { Array($0.prefix { $0 != UInt8(ascii: "\n") }) }
        if let kept, kept.count == 2 * Self.byteCount {
            return token.withLock { $0 = kept }
        }
        let made = Array(entropy.hex(Self.byteCount).utf8)
        try disk.replace(file, with: made + [UInt8(ascii: "\n")])
        token.withLock { $0 = made }
    }
}

/// The token follows the agreed state; on the control lane.
extension Cluster {
    /// Makes or removes the token after a change of the state, on the lane of the disk; retried every
    /// second after an error.
    func reconcileInitToken() {
        let isNeeded = !state.isProvisioned
        guard !initToken.isCurrent(isNeeded: isNeeded) else { return }
        diskLane.post { [weak self] in
            guard let self else { return }
            do throws(DiskError) {
                try initToken.reconcile(isNeeded: isNeeded)
                lane.post { [weak self] in
                    self?.wakeWatchers()
                    // The state may have changed meanwhile.
                    self?.reconcileInitToken()
                }
            } catch {
                logEvent(.error, .node, "\(error) The node retries every second.")
                lane.post(after: 1_000_000_000) { [weak self] in self?.reconcileInitToken() }
            }
        }
    }

    /// Waits until the token exists exactly if it is needed, at most ten seconds: what a request has
    /// changed is true of the file as well when it is answered.
    func awaitInitToken() async {
        _ = await whenChanged(within: Self.engageTimeoutNanoseconds) { [initToken] state in
            initToken.isCurrent(isNeeded: !state.isProvisioned)
        }
    }
}
