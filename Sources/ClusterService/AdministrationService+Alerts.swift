internal import Orchestration
internal import Seams
internal import Vocabulary

extension AdministrationService {
    /// A twentieth of the disk: what is left when somebody should look.
    private static let diskShareMin: UInt64 = 20

    /// What an operator should know now: what the data plane noticed, buckets that do not serve, a
    /// disk that is nearly full.
    package var alerts: [Alert] {
        var alerts = dataPlane.alerts()
        for bucket in state.buckets {
            let name = bucket.settings.name
            guard case .failed(let reason) = dataPlane.status(ofBucket: name),
                !alerts.contains(where: { $0.message.contains(reason) })
            else { continue }
            let message = "Bucket \(name) does not serve: \(reason)"
            alerts.append(Alert(id: "bucket/\(name)", message: message))
        }
        if let (free, total) = diskSpace, free < total / Self.diskShareMin {
            let message =
                "The disk that holds \(settings.directory) is nearly full: \(free >> 20) MB of "
                + "\(total >> 20) MB are left. Make room, or documents will not be persisted."
            alerts.append(Alert(id: "disk", message: message))
        }
        return alerts
    }
}
