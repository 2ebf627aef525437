package import Seams

/// skeleton
package final class GatewayServer: @unchecked Sendable {  // tidy:allow belongs to its event loop
    package let lane: EventLoopLane

    package init(
        _ lane: EventLoopLane,
        _ settings: GatewaySettings = GatewaySettings(),
        time: any TimeSource,
        _ makeRouter: @escaping @Sendable () throws -> Router
    ) throws {
        self.lane = lane
    }

    /// - Throws: `GatewayServerError`.
    @discardableResult
    package func listen(_ listener: GatewayListener) throws(GatewayServerError) -> Int { 0 }
    package func stop() {}
    package var connectionCount: Int { 0 }
}

package struct GatewayServerError: Error, CustomStringConvertible {
    package let description: String
}
