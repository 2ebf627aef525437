/// A cluster configuration as sent to clients, with its revision.
///
/// Configurations are ordered by `epoch`, then by `revision`.
package struct RenderedConfiguration: Hashable, Sendable {
    package let epoch: Int64
    package let revision: Int64
    package let json: [UInt8]

    package init(epoch: Int64, revision: Int64, json: [UInt8]) {
        self.epoch = epoch
        self.revision = revision
        self.json = json
    }
}
