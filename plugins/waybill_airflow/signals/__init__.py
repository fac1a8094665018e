"""What a stage tells other systems once it has ended: metrics and updates of assets."""
