internal import Orchestration
internal import Seams

/// The state file of the previous release: read once, then renamed.
struct StateStore {
    let disk: any Disk
    let directory: String

    private var path: String { "\(directory)/cluster-state" }

    /// The stored state; nil for a new node.
    ///
    /// - Throws: `ClusterError`: `.disk` if the file cannot be read, `.newerSchema` if a newer
    ///   release wrote it, `.damaged` if its checksum does not match.
    func load() throws(ClusterError) -> ClusterState? {
        let bytes: [UInt8]?
        do {
            bytes = try disk.read(path)
        } catch {
            throw ClusterError(code: .disk, description: error.description)
        }
        guard let bytes else { return nil }
        switch ClusterState.decode(bytes) {
        case .state(let state):
            return state
        case .newerSchema(let schema):
            throw ClusterError(
                code: .newerSchema,
                description: "\(path) has schema \(schema), written by a newer release; "
                    + "this one would lose what it does not know. Start the newer release."
            )
        case .damaged:
            throw ClusterError(
                code: .damaged,
                description: "\(path) is damaged: its checksum does not fit its content. "
                    + "Restore it from a backup; buckets' files are not touched."
            )
        }
    }

    /// Renames the file after its content was moved to the control file; a downgrade can use it.
    ///
    /// - Throws: `ClusterError` with the code `.disk` if the file cannot be renamed.
    func putAside() throws(ClusterError) {
        do {
            guard try disk.read(path) != nil else { return }
            try disk.rename(path, to: path + ".migrated")
        } catch {
            throw ClusterError(code: .disk, description: error.description)
        }
    }
}
