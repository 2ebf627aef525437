internal import Orchestration
internal import Seams

/// The file in which the release before this one kept the state: read once, and put aside.
struct StateStore {
    let disk: any Disk
    let directory: String

    private var path: String { "\(directory)/cluster-state" }

    /// The state that was kept last; nil for a new node.
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

    /// What it held is in the control file: kept under another name, for whoever goes back.
    func putAside() throws(ClusterError) {
        do {
            guard try disk.read(path) != nil else { return }
            try disk.rename(path, to: path + ".migrated")
        } catch {
            throw ClusterError(code: .disk, description: error.description)
        }
    }
}
